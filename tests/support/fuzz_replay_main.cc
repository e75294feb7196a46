// main of a fuzzer that is built without libFuzzer: runs each file of the corpus (files and folders
// named as arguments) through LLVMFuzzerTestOneInput once, so that every crash ever found stays a
// plain test with any compiler.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count);

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> inputs;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path{argv[i]};
    if (!std::filesystem::exists(path)) {
      std::cerr << "no such corpus: " << path << "\n";
      return 2;
    }
    if (!std::filesystem::is_directory(path)) {
      inputs.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator{path}) {
      if (entry.is_regular_file()) inputs.push_back(entry.path());
    }
  }
  if (inputs.empty()) {
    std::cerr << "the corpus is empty\n";
    return 2;
  }
  std::sort(inputs.begin(), inputs.end());
  for (const std::filesystem::path& input : inputs) {
    std::ifstream file{input, std::ios::binary};
    const std::vector<char> text{std::istreambuf_iterator<char>{file}, {}};
    const std::vector<std::uint8_t> bytes{text.begin(), text.end()};
    std::cerr << "running " << input << " (" << bytes.size() << " bytes)" << std::endl;
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::cerr << inputs.size() << " inputs ran\n";
  return 0;
}
