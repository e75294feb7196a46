// A long run of seeded programs with the judge on: model_soak [--seconds N] [--seed FIRST]
// [--programs N] [--ops N] [--validate-every N]
//
// Each seed is one program of a shape drawn from it: 1 to 16 streams, threads, pools, captures and
// replays, checkpoints, aliases by stitching, limits, faults, another way of joining pages.
// Programs run in batches, each in a process of its own, so that a failed check is told like any
// other finding: with its seed, and with the program shrunk and printed as C++, ready to be pasted
// into model_test.cc. Ends at the first finding with exit code 1. The last line says how many
// programs and operations ran; only operations that did something count. SOAK.md keeps the sums.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include <fmt/format.h>

#include "tests/model/op.h"
#include "tests/model/runner.h"

namespace levee::model_test {
namespace {

constexpr std::uint64_t MiB = 1ULL << 20;
constexpr std::uint64_t kBatch = 64;  // programs in one process: its start costs about 1 ms

struct Arguments {
  double seconds = 60;
  std::uint64_t first_seed = 1;
  std::uint64_t programs = ~0ULL;
  std::uint32_t ops = 2000;
  std::uint32_t validate_every = 61;
};

struct Drawn {
  Shape shape;
  RunOptions options;
};

Drawn draw(std::uint64_t seed, const Arguments& arguments) {
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15ULL + 1);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Drawn drawn;
  Shape& shape = drawn.shape;
  shape.ops = arguments.ops;
  shape.streams = 1 + static_cast<std::uint32_t>(below(2) == 0 ? below(4) : below(16));
  shape.capacity = (64 + 32 * below(8)) * MiB;
  shape.faults = below(4) == 0;
  shape.pools = below(2) == 0;
  shape.captures = below(3) == 0;
  shape.limits = below(3) == 0;
  shape.pool_options = shape.pools && below(3) == 0;
  shape.threads = below(4) == 0 ? 1 + static_cast<std::uint32_t>(below(4)) : 1;
  shape.fill = below(3) == 0 ? 1.2 : 0.5 + 0.1 * static_cast<double>(below(5));
  RunOptions& options = drawn.options;
  options.capacity = shape.capacity;
  options.validate_every = arguments.validate_every;
  options.compare_every = 7;
  switch (below(8)) {
    case 0:
      options.config.stitch = StitchMode::kMove;
      break;
    case 1:
      options.config.stitch = StitchMode::kNone;
      options.check_promise = false;
      break;
    case 2:
      options.config.backing = Backing::kSegments;
      options.check_promise = false;
      break;
    default:
      break;
  }
  options.config.predict = below(4) != 0;
  options.config.rebase = below(4) != 0;
  return drawn;
}

struct Count {
  std::uint64_t programs = 0;
  std::uint64_t operations = 0;
  std::uint64_t served = 0;
  std::uint64_t refused = 0;
};

// Runs the seeds in a child; it writes its counts after each program, so that those before a crash
// are known. The seed that failed, or 0.
std::uint64_t run_batch(std::uint64_t first, std::uint64_t last, const Arguments& arguments,
                        Count* count) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    for (std::uint64_t seed = first; seed <= last; ++seed) {
      const Drawn drawn = draw(seed, arguments);
      const RunResult result = run(generate(seed, drawn.shape), drawn.options);
      if (!result.ok()) _exit(1);
      const Count one{1, result.performed, result.served, result.refused};
      if (write(ends[1], &one, sizeof one) != sizeof one) _exit(2);
    }
    _exit(0);
  }
  close(ends[1]);
  std::uint64_t done = 0;
  Count one;
  // Writes of this size into a pipe are whole.
  while (read(ends[0], &one, sizeof one) == static_cast<ssize_t>(sizeof one)) {
    ++done;
    count->programs += one.programs;
    count->operations += one.operations;
    count->served += one.served;
    count->refused += one.refused;
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : first + done;
}

int soak(const Arguments& arguments) {
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  Count count;
  std::uint64_t seed = arguments.first_seed;
  const auto say = [&] {
    fmt::print("seeds {} to {}: {} programs, {} operations ({} served, {} refused), {:.0f} s\n",
               arguments.first_seed, seed - 1, count.programs, count.operations, count.served,
               count.refused, elapsed());
    std::fflush(stdout);
  };
  double told = 0;
  while (elapsed() < arguments.seconds && count.programs < arguments.programs) {
    const std::uint64_t last = seed + std::min(kBatch, arguments.programs - count.programs) - 1;
    if (const std::uint64_t bad = run_batch(seed, last, arguments, &count); bad != 0) {
      seed = bad;
      say();
      const Drawn drawn = draw(bad, arguments);
      fmt::print("FOUND with seed {} ({} streams, {} MiB, stitch {}, backing {}):\n{}\n", bad,
                 drawn.shape.streams, drawn.shape.capacity / MiB,
                 static_cast<int>(drawn.options.config.stitch),
                 static_cast<int>(drawn.options.config.backing),
                 check(generate(bad, drawn.shape), drawn.options));
      return 1;
    }
    seed = last + 1;
    if (elapsed() - told > 60) {
      told = elapsed();
      say();
    }
  }
  say();
  return 0;
}

}  // namespace
}  // namespace levee::model_test

int main(int argc, char** argv) {
  levee::model_test::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (i + 1 == argc) {
      fmt::print(stderr, "{} needs a number after it.\n", arg);
      return 2;
    }
    const char* value = argv[++i];
    if (arg == "--seconds") {
      arguments.seconds = std::strtod(value, nullptr);
    } else if (arg == "--seed") {
      arguments.first_seed = std::strtoull(value, nullptr, 10);
    } else if (arg == "--programs") {
      arguments.programs = std::strtoull(value, nullptr, 10);
    } else if (arg == "--ops") {
      arguments.ops = static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10));
    } else if (arg == "--validate-every") {
      arguments.validate_every = static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10));
    } else {
      fmt::print(stderr, "unknown option {}; the head of model_soak.cc lists them.\n", arg);
      return 2;
    }
  }
  return levee::model_test::soak(arguments);
}
