#include "bench/replay/generators/adversarial.h"

#include <cmath>
#include <deque>
#include <utility>

#include "bench/replay/generators/seeded_random.h"

namespace levee::replay {

namespace {

using Id = std::uint64_t;
constexpr double kMiB = 1 << 20;
constexpr std::uint64_t kStepMflop = 60'000'000;

/// A trace under construction, with ids that are handed out here.
class Writer {
 public:
  explicit Writer(const std::string& name) : trace_(name) {}
  Id alloc(double bytes, std::uint64_t stream = 0) {
    trace_.alloc(++last_, Bytes{static_cast<std::uint64_t>(bytes)}, stream);
    return last_;
  }
  void drop(Id id) { trace_.free(id); }
  void drop(const std::vector<Id>& ids) {
    for (const Id id : ids) drop(id);
  }
  void step() { trace_.step(kStepMflop); }
  OpTrace finish() { return trace_.finish(); }

 private:
  OpTraceBuilder trace_;
  Id last_ = 0;
};

void drop_every_other(Writer& w, const std::vector<Id>& ids, std::size_t first) {
  for (std::size_t i = first; i < ids.size(); i += 2) w.drop(ids[i]);
}

OpTrace comb(const std::string& name, double bytes, double wanted_pages) {
  Writer w(name);
  for (int step = 0; step < 60; ++step) {
    w.step();
    std::vector<Id> teeth;
    for (int i = 0; i < 2000; ++i) teeth.push_back(w.alloc(bytes));
    drop_every_other(w, teeth, 0);
    w.drop(w.alloc(wanted_pages * 2 * kMiB));
    drop_every_other(w, teeth, 1);
  }
  return w.finish();
}

OpTrace comb_of_3_mib(const std::string& name, std::uint32_t /*seed*/) {
  return comb(name, 3 * kMiB, 1000);
}
OpTrace comb_just_above_a_page(const std::string& name, std::uint32_t /*seed*/) {
  return comb(name, 2 * kMiB + 512, 900);
}

struct Holder {
  std::vector<std::pair<Id, std::uint64_t>> live;
  std::uint64_t bytes = 0;

  void add(Id id, std::uint64_t size) {
    live.emplace_back(id, size);
    bytes += size;
  }
  void drop_one(Writer& w, SeededRandom& random) {
    const std::uint32_t i = random.below(static_cast<std::uint32_t>(live.size()));
    w.drop(live[i].first);
    bytes -= live[i].second;
    live[i] = live.back();
    live.pop_back();
  }
};

OpTrace random_sizes(const std::string& name, std::uint32_t seed) {
  SeededRandom random(seed + 2);
  Writer w(name);
  Holder holder;
  for (int step = 0; step < 100; ++step) {
    w.step();
    for (int i = 0; i < 600; ++i) {
      const auto size = static_cast<std::uint64_t>(512 * std::exp2(random.uniform(0, 19)));
      holder.add(w.alloc(static_cast<double>(size)), size);
      while (holder.bytes > (16ULL << 30) || (!holder.live.empty() && random.uniform() < 0.3))
        holder.drop_one(w, random);
    }
  }
  return w.finish();
}

OpTrace random_large_sizes(const std::string& name, std::uint32_t seed) {
  SeededRandom random(seed + 3);
  Writer w(name);
  Holder holder;
  for (int step = 0; step < 100; ++step) {
    w.step();
    for (int i = 0; i < 300; ++i) {
      const auto size = static_cast<std::uint64_t>(2 * kMiB * std::exp2(random.uniform(0, 8)));
      holder.add(w.alloc(static_cast<double>(size)), size);
      while (holder.bytes > (24ULL << 30)) holder.drop_one(w, random);
    }
  }
  return w.finish();
}

OpTrace lifetimes_swap(const std::string& name, std::uint32_t seed) {
  SeededRandom random(seed + 4);
  Writer w(name);
  for (int step = 0; step < 120; ++step) {
    w.step();
    const double unit = random.between(20, 64) * kMiB;
    std::vector<Id> kept;
    for (int l = 0; l < 48; ++l) {
      const Id a = w.alloc(unit);
      const Id b = w.alloc(unit * 1.7);
      const Id c = w.alloc(unit * 0.6);
      if ((step / 10) % 2 == 0) {
        w.drop(a);
        w.drop(c);
        kept.push_back(b);
      } else {
        w.drop(b);
        kept.push_back(a);
        kept.push_back(c);
      }
    }
    w.drop(w.alloc(unit * 30));
    w.drop(kept);
  }
  return w.finish();
}

OpTrace lifetime_by_coin(const std::string& name, std::uint32_t seed) {
  SeededRandom random(seed + 5);
  const std::vector<double> factors{0.5, 1, 1.7};
  Writer w(name);
  for (int step = 0; step < 120; ++step) {
    w.step();
    const double unit = random.between(20, 64) * kMiB;
    std::vector<Id> kept;
    std::deque<Id> brief;
    for (int l = 0; l < 150; ++l) {
      const Id id = w.alloc(unit * random.choice(factors));
      if (random.uniform() < 0.3) {
        kept.push_back(id);
      } else {
        brief.push_back(id);
      }
      while (brief.size() > 6) {
        w.drop(brief.front());
        brief.pop_front();
      }
    }
    for (const Id id : brief) w.drop(id);
    w.drop(w.alloc(unit * 30));
    w.drop(kept);
  }
  return w.finish();
}

OpTrace ever_growing(const std::string& name, std::uint32_t /*seed*/) {
  Writer w(name);
  for (int step = 0; step < 120; ++step) {
    w.step();
    const double unit = 10 * kMiB * std::pow(1.01, step);
    std::vector<Id> kept;
    for (int l = 0; l < 40; ++l) {
      const Id a = w.alloc(unit);
      const Id b = w.alloc(unit * 2.7);
      const Id c = w.alloc(unit * 2.7);
      kept.push_back(w.alloc(unit));
      w.drop(a);
      w.drop(b);
      w.drop(c);
    }
    w.drop(w.alloc(unit * 15));
    for (std::size_t i = kept.size(); i-- > 0;) w.drop(kept[i]);
  }
  return w.finish();
}

OpTrace straddle_one_mib(const std::string& name, std::uint32_t /*seed*/) {
  Writer w(name);
  for (int step = 0; step < 60; ++step) {
    w.step();
    std::vector<Id> mixed;
    for (int i = 0; i < 4000; ++i) mixed.push_back(w.alloc(kMiB + (i % 2 != 0 ? 512 : 0)));
    drop_every_other(w, mixed, 0);
    std::vector<Id> more;
    for (int i = 0; i < 2000; ++i) more.push_back(w.alloc(kMiB + 512));
    drop_every_other(w, mixed, 1);
    w.drop(more);
  }
  return w.finish();
}

OpTrace growing_kv_cache(const std::string& name, std::uint32_t seed) {
  SeededRandom random(seed + 8);
  Writer w(name);
  constexpr double kBytesPerToken = 8 * 4096;
  for (int request = 0; request < 40; ++request) {
    w.step();
    const std::uint32_t prompt = random.between(200, 4000);
    std::vector<Id> cache;
    for (int i = 0; i < 32; ++i) cache.push_back(w.alloc(prompt * kBytesPerToken));
    for (std::uint32_t token = 1; token < 40; ++token) {
      for (Id& tensor : cache) {
        const Id longer = w.alloc((prompt + token) * kBytesPerToken);
        w.drop(tensor);
        tensor = longer;
      }
    }
    w.drop(cache);
  }
  return w.finish();
}

OpTrace one_leak_a_step(const std::string& name, std::uint32_t seed) {
  SeededRandom random(seed + 9);
  Writer w(name);
  for (int step = 0; step < 120; ++step) {
    w.step();
    const double unit = random.between(20, 64) * kMiB;
    std::vector<Id> kept;
    for (int l = 0; l < 40; ++l) {
      const Id a = w.alloc(unit);
      const Id b = w.alloc(unit * 2.7);
      kept.push_back(w.alloc(unit));
      w.drop(a);
      w.drop(b);
      if (l == 20) w.alloc(4 * kMiB);
    }
    w.drop(w.alloc(unit * 30));
    w.drop(kept);
  }
  return w.finish();
}

OpTrace two_size_families(const std::string& name, std::uint32_t /*seed*/) {
  Writer w(name);
  for (int step = 0; step < 60; ++step) {
    w.step();
    std::vector<Id> kept;
    for (int l = 0; l < 36; ++l) {
      const Id wide = w.alloc(530 * kMiB / 8);
      const Id narrow = w.alloc(270 * kMiB / 8);
      w.drop(wide);
      kept.push_back(w.alloc(270 * kMiB / 8));
      w.drop(narrow);
    }
    w.drop(kept);
  }
  return w.finish();
}

OpTrace train_and_evaluate(const std::string& name, std::uint32_t seed) {
  SeededRandom random(seed + 10);
  Writer w(name);
  for (int step = 0; step < 120; ++step) {
    w.step();
    const double unit = random.between(20, 64) * kMiB;
    const bool evaluates = step % 4 == 3;
    std::vector<Id> kept;
    for (int l = 0; l < 48; ++l) {
      const Id a = w.alloc(unit);
      const Id b = w.alloc(unit * 2.7);
      if (evaluates) {
        w.drop(a);
        w.drop(b);
      } else {
        kept.push_back(a);
        kept.push_back(b);
      }
    }
    w.drop(w.alloc(unit * (evaluates ? 90 : 30)));
    w.drop(kept);
  }
  return w.finish();
}

/// Robson's sequence for first fit: doubling sizes, each survivor placed so that the hole around it
/// is just too small.
OpTrace robson(const std::string& name, std::uint32_t /*seed*/) {
  Writer w(name);
  for (int round = 0; round < 40; ++round) {
    w.step();
    std::vector<Id> live;
    for (int i = 0; i < 1024; ++i) live.push_back(w.alloc(2 * kMiB));
    for (double size = 4 * kMiB; size <= 256 * kMiB; size *= 2) {
      std::vector<Id> survivors;
      for (std::size_t i = 0; i < live.size(); ++i) {
        if (i % 2 == 0) {
          survivors.push_back(live[i]);
        } else {
          w.drop(live[i]);
        }
      }
      const auto more = static_cast<std::size_t>(1024 * kMiB / size);
      for (std::size_t i = 0; i < more; ++i) survivors.push_back(w.alloc(size));
      live = std::move(survivors);
    }
    w.drop(live);
  }
  return w.finish();
}

}  // namespace

const std::vector<AdversarialPattern>& adversarial_patterns() {
  static const std::vector<AdversarialPattern> kAll{
      {"comb-3mib",
       "every other of 2,000 blocks of 3 MiB freed, then half of memory asked for in one piece",
       comb_of_3_mib},
      {"comb-page+512", "the same with blocks of 2 MiB + 512 B: no hole contains an aligned page",
       comb_just_above_a_page},
      {"random", "log-uniform sizes from 512 B to 256 MiB, random lifetimes, 16 GiB kept full",
       random_sizes},
      {"random-large", "log-uniform sizes from 2 to 512 MiB, 24 GiB kept full", random_large_sizes},
      {"swap", "which of three blocks of a layer lives on swaps every ten steps", lifetimes_swap},
      {"coin", "whether a block lives on is a coin toss at every call", lifetime_by_coin},
      {"growing", "every step 1 % longer than the last: no length ever repeats", ever_growing},
      {"straddle-1mib", "1 MiB and 1 MiB + 512 B in turn: the border between small and large",
       straddle_one_mib},
      {"kv-cache", "32 tensors that grow by one token at a time, each in a new allocation",
       growing_kv_cache},
      {"leak", "one 4 MiB block in mid-step that never dies", one_leak_a_step},
      {"families", "two families of sizes, each dropping into holes that the other needs",
       two_size_families},
      {"train-eval", "three training steps, then an evaluation with one much larger block",
       train_and_evaluate},
      {"robson", "doubling sizes, the survivors in the worst places for first fit", robson},
  };
  return kAll;
}

}  // namespace levee::replay
