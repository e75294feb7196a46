// NVRTC: "compiles" a program by looking for its kernels.
//
// Promises: the result is valid PTX with one empty entry per `__global__` function and per name
// expression, so that a loader finds every kernel by its name; the same text is handed out as
// CUBIN. Does not: read the program. Code that a real compiler would refuse is accepted, and what
// is computed is nothing, as everywhere on the stand-in GPU. Lock: none; a program is used by one
// thread, as with NVRTC.
#include <cuda.h>
#include <nvrtc.h>

#include <array>
#include <atomic>
#include <cctype>
#include <cstring>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tools/simgpu/stubs/common/call.h"

namespace {

constexpr std::array kArchitectures = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

struct Program {
  static constexpr std::uint64_t kMagic = 0x6E76'7274'6370'726FULL;

  // Atomic: the store before the end must not be optimised away.
  std::atomic<std::uint64_t> magic = kMagic;
  std::string source;
  std::map<std::string, std::string> lowered;  ///< name expression -> name in the module
  std::string image;                           ///< empty until compiled

  static Program* from(nvrtcProgram handle) {
    auto* program = reinterpret_cast<Program*>(handle);
    return program != nullptr && program->magic.load() == kMagic ? program : nullptr;
  }
};

/// A name that PTX takes and that no other expression gets: readable, then numbered.
std::string lowered_name(const std::string& expression, std::size_t number) {
  std::string name = "_Z";
  for (const char c : expression) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name + "_" + std::to_string(number);
}

/// Names of the functions declared `__global__`: what stands before the first parenthesis that is
/// no attribute's.
std::set<std::string> kernels_in(const std::string& source) {
  std::set<std::string> names;
  static const std::regex kernel(
      R"(__global__\s+(?:(?:__\w+__\s*(?:\([^)]*\))?|extern|static|inline|void|"C")\s+)*(\w+)\s*\()");
  for (auto it = std::sregex_iterator(source.begin(), source.end(), kernel);
       it != std::sregex_iterator(); ++it) {
    names.insert((*it)[1].str());
  }
  return names;
}

std::string target_of(int count, const char* const* options) {
  static const std::regex architecture(
      R"((?:--gpu-architecture|-arch)[= ](?:sm|compute)_(\d+[af]?))");
  for (int i = 0; i < count; ++i) {
    std::cmatch match;
    if (std::regex_search(options[i], match, architecture)) return "sm_" + match[1].str();
  }
  return "sm_75";  // what NVRTC 13 compiles for when it is not told
}

std::string image_of(const Program& program, const std::string& target) {
  std::string text =
      "//\n// Made by simgpu's NVRTC: kernels without effect.\n//\n.version 9.0\n.target " +
      target + "\n.address_size 64\n\n";
  std::set<std::string> names = kernels_in(program.source);
  for (const auto& [expression, name] : program.lowered) names.insert(name);
  for (const std::string& name : names) text += ".visible .entry " + name + "()\n{\n\tret;\n}\n\n";
  return text;
}

nvrtcResult give_size(nvrtcProgram prog, std::size_t* out) {
  const Program* program = Program::from(prog);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (out == nullptr || program->image.empty()) return NVRTC_ERROR_INVALID_INPUT;
  *out = program->image.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult give_image(nvrtcProgram prog, char* out) {
  const Program* program = Program::from(prog);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (out == nullptr || program->image.empty()) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(out, program->image.c_str(), program->image.size() + 1);
  return NVRTC_SUCCESS;
}

}  // namespace

nvrtcResult nvrtcVersion(int* major, int* minor) {
  SIMGPU_TRACE_CALL("nvrtc");
  if (major == nullptr || minor == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *major = CUDA_VERSION / 1000;
  *minor = CUDA_VERSION % 1000 / 10;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int* numArchs) {
  SIMGPU_TRACE_CALL("nvrtc");
  if (numArchs == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *numArchs = static_cast<int>(kArchitectures.size());
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* supportedArchs) {
  SIMGPU_TRACE_CALL("nvrtc");
  if (supportedArchs == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::copy(kArchitectures.begin(), kArchitectures.end(), supportedArchs);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* prog, const char* src, const char* /*name*/,
                               int /*numHeaders*/, const char* const* /*headers*/,
                               const char* const* /*includeNames*/) {
  SIMGPU_TRACE_CALL("nvrtc");
  if (prog == nullptr || src == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  auto* program = new Program;
  program->source = src;
  *prog = reinterpret_cast<nvrtcProgram>(program);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* prog) {
  SIMGPU_TRACE_CALL("nvrtc");
  Program* program = prog == nullptr ? nullptr : Program::from(*prog);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  program->magic.store(0);
  delete program;
  *prog = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcAddNameExpression(nvrtcProgram prog, const char* const name_expression) {
  SIMGPU_TRACE_CALL("nvrtc");
  Program* program = Program::from(prog);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (name_expression == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  if (!program->image.empty()) return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
  program->lowered.try_emplace(name_expression,
                               lowered_name(name_expression, program->lowered.size()));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram prog, int numOptions, const char* const* options) {
  SIMGPU_TRACE_CALL("nvrtc");
  Program* program = Program::from(prog);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (numOptions > 0 && options == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  program->image = image_of(*program, target_of(numOptions, options));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetLoweredName(nvrtcProgram prog, const char* const name_expression,
                                const char** lowered_name) {
  SIMGPU_TRACE_CALL("nvrtc");
  const Program* program = Program::from(prog);
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (name_expression == nullptr || lowered_name == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  if (program->image.empty()) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
  const auto found = program->lowered.find(name_expression);
  if (found == program->lowered.end()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  *lowered_name = found->second.c_str();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram prog, size_t* ptxSizeRet) {
  SIMGPU_TRACE_CALL("nvrtc");
  return give_size(prog, ptxSizeRet);
}
nvrtcResult nvrtcGetPTX(nvrtcProgram prog, char* ptx) {
  SIMGPU_TRACE_CALL("nvrtc");
  return give_image(prog, ptx);
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram prog, size_t* cubinSizeRet) {
  SIMGPU_TRACE_CALL("nvrtc");
  return give_size(prog, cubinSizeRet);
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram prog, char* cubin) {
  SIMGPU_TRACE_CALL("nvrtc");
  return give_image(prog, cubin);
}

// A compilation that always succeeds has nothing to say: the log is an empty string.
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram prog, size_t* logSizeRet) {
  SIMGPU_TRACE_CALL("nvrtc");
  if (Program::from(prog) == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (logSizeRet == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *logSizeRet = 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram prog, char* log) {
  SIMGPU_TRACE_CALL("nvrtc");
  if (Program::from(prog) == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (log == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *log = '\0';
  return NVRTC_SUCCESS;
}
