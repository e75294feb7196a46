#include "tests/model/op.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <tuple>

namespace levee::model_test {
namespace {

// Each operation's name and its fields, once, for printing and reading.
template <typename T>
struct Describe;
#define LEVEE_OP(type, word, ...)                                                   \
  template <>                                                                       \
  struct Describe<type> {                                                           \
    static constexpr const char* kWord = word;                                      \
    static constexpr const char* kType = #type;                                     \
    static auto fields([[maybe_unused]] type& op) { return std::tie(__VA_ARGS__); } \
  };
LEVEE_OP(Alloc, "alloc", op.id, op.bytes, op.stream)
LEVEE_OP(Free, "free", op.id)
LEVEE_OP(RecordUse, "record_use", op.id, op.stream)
LEVEE_OP(Work, "work", op.stream, op.us)
LEVEE_OP(Wait, "wait", op.stream, op.other)
LEVEE_OP(Sync, "sync", op.stream)
LEVEE_OP(Advance, "advance", op.us)
LEVEE_OP(Trim, "trim", op.keep)
LEVEE_OP(SetLimit, "limit", op.bytes)
LEVEE_OP(SetOthers, "others", op.bytes)
LEVEE_OP(Fault, "fault", op.call, op.nth, op.times)
LEVEE_OP(ClearFaults, "clear_faults")
LEVEE_OP(PoolBegin, "pool_begin", op.pool, op.stream)
LEVEE_OP(PoolEnd, "pool_end", op.pool)
LEVEE_OP(PoolRelease, "pool_release", op.pool)
LEVEE_OP(CaptureBegin, "capture_begin", op.pool, op.stream)
LEVEE_OP(CaptureEnd, "capture_end", op.pool)
LEVEE_OP(Replay, "replay", op.pool, op.stream)
LEVEE_OP(Checkpoint, "checkpoint", op.pool)
LEVEE_OP(Restore, "restore", op.pool)
LEVEE_OP(Step, "step")
LEVEE_OP(Snapshot, "snapshot")
LEVEE_OP(ResetPeaks, "reset_peaks")
#undef LEVEE_OP

template <typename T>
std::string join(const T& op, const char* separator) {
  T copy = op;
  std::ostringstream text;
  bool first = true;
  std::apply(
      [&](auto&... field) { ((text << (first ? "" : separator) << field, first = false), ...); },
      Describe<T>::fields(copy));
  return text.str();
}

template <std::size_t I = 0>
bool parse_line(const std::string& word, std::istringstream& rest, Op* op) {
  if constexpr (I == std::variant_size_v<Op>) {
    return false;
  } else {
    using T = std::variant_alternative_t<I, Op>;
    if (word != Describe<T>::kWord) return parse_line<I + 1>(word, rest, op);
    T value{};
    const bool complete = std::apply(
        [&](auto&... field) { return (static_cast<bool>(rest >> field) && ... && true); },
        Describe<T>::fields(value));
    std::string more;
    if (!complete || static_cast<bool>(rest >> more)) return false;
    *op = value;
    return true;
  }
}

}  // namespace

std::string to_text(const Op& op) {
  return std::visit(
      [](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        const std::string fields = join(value, " ");
        return std::string(Describe<T>::kWord) + (fields.empty() ? "" : " " + fields);
      },
      op);
}

std::string to_cpp(const Op& op) {
  return std::visit(
      [](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        return std::string(Describe<T>::kType) + "{" + join(value, ", ") + "}";
      },
      op);
}

std::string to_text(const Program& program) {
  std::string text;
  for (const Op& op : program) text += to_text(op) + "\n";
  return text;
}

std::string to_cpp(const Program& program) {
  std::string text = "{\n";
  for (const Op& op : program) text += "    " + to_cpp(op) + ",\n";
  return text + "}";
}

bool parse(std::string_view text, Program* program, std::string* problem) {
  std::istringstream lines{std::string(text)};
  std::string line;
  program->clear();
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream rest(line);
    std::string word;
    rest >> word;
    Op op;
    if (!parse_line(word, rest, &op)) {
      *problem = line;
      return false;
    }
    program->push_back(op);
  }
  return true;
}

namespace {

// Sizes as programs ask for them: most small, some of every class, and the borders.
template <typename Random>
std::uint64_t random_size(Random& random, std::uint64_t capacity) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  switch (below(10)) {
    case 0:
      return 1 + below(512);
    case 1:
    case 2:
      return 1 + below(16 << 10);
    case 3:
    case 4:
      return (16 << 10) + below((1 << 20) - (16 << 10));
    case 5: {
      static constexpr std::uint64_t kBorders[] = {1,
                                                   511,
                                                   512,
                                                   513,
                                                   4096,
                                                   16384,
                                                   16385,
                                                   1 << 20,
                                                   (1 << 20) + 1,
                                                   2 << 20,
                                                   (2 << 20) + 512,
                                                   (2 << 20) - 512,
                                                   4 << 20};
      return kBorders[below(std::size(kBorders))];
    }
    case 6:
    case 7:
      return (1 << 20) + below(8 << 20);
    case 8:
      return (1 << 20) + below(capacity / 4);
    default:
      return (2ULL << 20) * (1 + below(std::max<std::uint64_t>(1, capacity >> 25)));
  }
}

template <typename Random>
Program make_program(Random& random, const Shape& shape) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
  Program program;
  std::uint32_t next_id = 1;
  const auto some_id = [&]() -> std::uint32_t {
    // Mostly a recent one: stacks are what programs are made of.
    if (next_id <= 1) return 0;
    const std::uint32_t span = below(3) == 0 ? next_id - 1 : std::min(next_id - 1, 24U);
    return next_id - 1 - below(span);
  };
  const auto stream = [&] { return below(3) == 0 ? below(shape.streams) : 0; };
  while (program.size() < shape.ops) {
    const std::uint32_t kind = below(100);
    if (kind < 40) {
      program.push_back(Alloc{next_id++, random_size(random, shape.capacity), stream()});
    } else if (kind < 72) {
      program.push_back(Free{some_id()});
    } else if (kind < 77) {
      program.push_back(Work{stream(), 1 + below(300)});
    } else if (kind < 80) {
      program.push_back(Advance{1 + below(500)});
    } else if (kind < 83) {
      if (shape.streams > 1) program.push_back(RecordUse{some_id(), below(shape.streams)});
    } else if (kind < 84) {
      if (shape.streams > 1) program.push_back(Wait{below(shape.streams), below(shape.streams)});
    } else if (kind < 85) {
      program.push_back(Sync{below(shape.streams)});
    } else if (kind < 87) {
      program.push_back(Step{});
    } else if (kind < 88) {
      program.push_back(Snapshot{});
    } else if (kind < 89) {
      program.push_back(Trim{below(2) == 0 ? 0 : random() % shape.capacity});
    } else if (kind < 90) {
      if (shape.limits) {
        program.push_back(
            SetLimit{below(3) == 0 ? 0 : shape.capacity / 2 + random() % shape.capacity});
      }
    } else if (kind < 91) {
      if (shape.limits) program.push_back(SetOthers{random() % (shape.capacity / 2)});
    } else if (kind < 94) {
      if (shape.faults) {
        if (below(3) == 0) {
          program.push_back(ClearFaults{});
        } else {
          program.push_back(Fault{below(12), 1 + below(6), 1 + below(3)});
        }
      }
    } else if (kind < 98) {
      if (shape.pools || shape.captures) {
        const std::uint32_t pool = 1 + below(2);
        switch (below(8)) {
          case 0:
            program.push_back(PoolBegin{pool, below(shape.streams)});
            break;
          case 1:
          case 2:
            program.push_back(PoolEnd{pool});
            break;
          case 3:
            program.push_back(PoolRelease{pool});
            break;
          case 4:
            program.push_back(Checkpoint{pool});
            break;
          case 5:
            program.push_back(Restore{pool});
            break;
          case 6:
            if (shape.captures && shape.streams > 1) {
              program.push_back(CaptureBegin{pool, 1 + below(shape.streams - 1)});
            }
            break;
          default:
            if (shape.captures) program.push_back(CaptureEnd{pool});
        }
      }
    } else if (kind < 99) {
      if (shape.captures) program.push_back(Replay{1 + below(2), below(shape.streams)});
    } else {
      program.push_back(ResetPeaks{});
    }
  }
  return program;
}

// Numbers out of bytes; zeros once they are used up.
class ByteRandom {
 public:
  explicit ByteRandom(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint64_t operator()() {
    std::uint64_t value = 0;
    for (int i = 0; i < 3; ++i) value = value << 8 | (at_ < bytes_.size() ? bytes_[at_++] : 0U);
    return value;
  }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

Program generate(std::uint64_t seed, const Shape& shape) {
  std::mt19937_64 random(seed);
  return make_program(random, shape);
}

Program decode(std::span<const std::uint8_t> bytes) {
  ByteRandom random(bytes);
  Shape shape;
  shape.streams = 1 + static_cast<std::uint32_t>(random() % 4);
  const std::uint64_t flags = random();
  shape.faults = (flags & 1) != 0;
  shape.pools = (flags & 2) != 0;
  shape.captures = (flags & 4) != 0;
  shape.limits = (flags & 8) != 0;
  shape.ops = static_cast<std::uint32_t>(std::min<std::size_t>(400, bytes.size() / 6));
  return make_program(random, shape);
}

}  // namespace levee::model_test
