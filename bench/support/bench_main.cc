// main of every Google Benchmark program of levee. Adds one option, `--smoke`: each benchmark runs
// for about a millisecond, once, so that the program itself is tested (ctest) without its figures
// meaning anything.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

int main(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 0; i < argc; ++i) {
    if (std::string{argv[i]} == "--smoke") {
      arguments.insert(arguments.end(),
                       {"--benchmark_min_time=0.001", "--benchmark_repetitions=1"});
    } else {
      arguments.emplace_back(argv[i]);
    }
  }
  std::vector<char*> pointers;
  pointers.reserve(arguments.size());
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;
  if (benchmark::RunSpecifiedBenchmarks() == 0)
    return 1;  // a filter that matches nothing is a mistake
  benchmark::Shutdown();
  return 0;
}
