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
LEVEE_OP(PoolLimit, "pool_limit", op.pool, op.bytes)
LEVEE_OP(PoolNoSplit, "pool_no_split", op.pool)
LEVEE_OP(PoolServes, "pool_serves", op.pool, op.on)
LEVEE_OP(PoolSegments, "pool_segments", op.pool, op.on)
LEVEE_OP(PoolTrim, "pool_trim", op.pool)
LEVEE_OP(CaptureBegin, "capture_begin", op.pool, op.stream)
LEVEE_OP(CaptureEnd, "capture_end", op.pool)
LEVEE_OP(Replay, "replay", op.pool, op.stream)
LEVEE_OP(Checkpoint, "checkpoint", op.pool)
LEVEE_OP(Restore, "restore", op.pool)
LEVEE_OP(Step, "step")
LEVEE_OP(Snapshot, "snapshot")
LEVEE_OP(ResetPeaks, "reset_peaks")
LEVEE_OP(FreeOnOom, "free_on_oom", op.id)
LEVEE_OP(SwitchThread, "thread", op.thread)
LEVEE_OP(EndThread, "end_thread", op.thread)
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

// Draws one operation after the other, with an eye on what earlier ones left behind.
template <typename Random>
class Maker {
 public:
  Maker(Random& random, const Shape& shape) : random_(random), shape_(shape) {}

  Program make() {
    while (program_.size() < shape_.ops) one();
    return std::move(program_);
  }

 private:
  struct Believed {
    std::uint32_t id;
    std::uint64_t bytes;
  };

  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(random_() % n); }
  // The first stream does most of the work, as in most programs.
  std::uint32_t stream() { return below(3) == 0 ? below(shape_.streams) : 0; }
  std::uint32_t pool() { return 1 + below(2); }

  // Mostly a recent one: stacks are what programs are made of.
  std::size_t some_live() {
    const std::size_t n = live_.size();
    return n - 1 - (below(3) == 0 ? below(n) : below(std::min<std::size_t>(n, 24)));
  }
  void alloc() {
    const std::uint64_t bytes = random_size(random_, shape_.capacity);
    live_.push_back({next_id_, bytes});
    live_bytes_ += bytes;
    program_.push_back(Alloc{next_id_++, bytes, stream()});
  }
  void free() {
    if (live_.empty()) return alloc();
    const std::size_t at = some_live();
    program_.push_back(Free{live_[at].id});
    live_bytes_ -= live_[at].bytes;
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  // A step or a batch ends: a good part of what is live goes.
  void free_many() {
    for (std::size_t n = live_.size() / 2; n > 0 && program_.size() < shape_.ops; --n) free();
  }

  void one() {
    const std::uint32_t kind = below(100);
    if (kind < 72) {
      const double share =
          static_cast<double>(live_bytes_) / (shape_.fill * static_cast<double>(shape_.capacity));
      const double chance = share < 0.8 ? 0.6 : share < 1.0 ? 0.5 : 0.35;
      if (below(1000) < static_cast<std::uint32_t>(1000 * chance)) {
        alloc();
      } else if (below(400) == 0) {
        free_many();
      } else {
        free();
      }
    } else if (kind < 77) {
      program_.push_back(Work{stream(), 1 + below(300)});
    } else if (kind < 80) {
      program_.push_back(Advance{1 + below(500)});
    } else if (kind < 83) {
      if (shape_.streams > 1 && !live_.empty()) {
        program_.push_back(RecordUse{live_[some_live()].id, below(shape_.streams)});
      }
    } else if (kind < 84) {
      if (shape_.streams > 1) {
        program_.push_back(Wait{below(shape_.streams), below(shape_.streams)});
      }
    } else if (kind < 85) {
      program_.push_back(Sync{below(shape_.streams)});
    } else if (kind < 87) {
      program_.push_back(Step{});
    } else if (kind < 88) {
      rare();
    } else if (kind < 90) {
      if (shape_.limits) limit();
    } else if (kind < 93) {
      if (shape_.faults) fault();
    } else if (kind < 97) {
      if (shape_.pools || shape_.captures) pool_op();
    } else if (kind < 98) {
      if (shape_.captures) program_.push_back(Replay{pool(), below(shape_.streams)});
    } else if (kind < 99) {
      if (shape_.threads > 1) program_.push_back(SwitchThread{below(shape_.threads)});
    } else {
      if (shape_.pool_options) pool_option();
    }
  }
  void rare() {
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        program_.push_back(Snapshot{});
        break;
      case 3:
      case 4:
      case 5:
        program_.push_back(Trim{below(2) == 0 ? 0 : random_() % shape_.capacity});
        break;
      case 6:
        program_.push_back(ResetPeaks{});
        break;
      default:
        if (shape_.threads > 1) {
          program_.push_back(EndThread{below(shape_.threads)});
        } else if (!live_.empty()) {
          program_.push_back(FreeOnOom{live_[some_live()].id});
        }
    }
  }
  void limit() {
    if (below(2) == 0) {
      program_.push_back(
          SetLimit{below(3) == 0 ? 0 : shape_.capacity / 2 + random_() % shape_.capacity});
    } else {
      program_.push_back(SetOthers{random_() % (shape_.capacity / 2)});
    }
  }
  void fault() {
    if (below(3) == 0) {
      program_.push_back(ClearFaults{});
    } else {
      program_.push_back(Fault{below(kFaultKinds), 1 + below(6), 1 + below(3)});
    }
  }
  void pool_op() {
    const std::uint32_t p = pool();
    switch (below(8)) {
      case 0:
        program_.push_back(PoolBegin{p, below(shape_.streams)});
        break;
      case 1:
      case 2:
        program_.push_back(PoolEnd{p});
        break;
      case 3:
        program_.push_back(PoolRelease{p});
        break;
      case 4:
        program_.push_back(Checkpoint{p});
        break;
      case 5:
        program_.push_back(Restore{p});
        break;
      case 6:
        if (shape_.captures && shape_.streams > 1) {
          program_.push_back(CaptureBegin{p, 1 + below(shape_.streams - 1)});
        }
        break;
      default:
        if (shape_.captures) program_.push_back(CaptureEnd{p});
    }
  }
  void pool_option() {
    const std::uint32_t p = pool();
    switch (below(5)) {
      case 0:
        program_.push_back(PoolLimit{p, below(2) == 0 ? 0 : random_() % shape_.capacity});
        break;
      case 1:
        program_.push_back(PoolNoSplit{p});
        break;
      case 2:
        program_.push_back(PoolServes{p, below(2)});
        break;
      case 3:
        program_.push_back(PoolSegments{p, below(2)});
        break;
      default:
        program_.push_back(PoolTrim{p});
    }
  }

  Random& random_;
  const Shape& shape_;
  Program program_;
  std::vector<Believed> live_;
  std::uint64_t live_bytes_ = 0;
  std::uint32_t next_id_ = 1;
};

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
  return Maker<std::mt19937_64>(random, shape).make();
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
  shape.pool_options = (flags & 16) != 0;
  shape.fill = (flags & 32) != 0 ? 1.3 : 0.9;
  shape.ops = static_cast<std::uint32_t>(std::min<std::size_t>(400, bytes.size() / 6));
  return Maker<ByteRandom>(random, shape).make();
}

}  // namespace levee::model_test
