#include "tools/simgpu/core/kernels.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace levee::simgpu {
namespace {

std::string demangle(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return out;
}

/// The parameter types of "void f<...>(int, float*)", split at the commas of the outermost level.
std::vector<std::string_view> parameters(std::string_view signature) {
  std::vector<std::string_view> out;
  const std::size_t close = signature.rfind(')');
  if (close == std::string_view::npos) return out;
  std::size_t open = close;
  for (int depth = 1; depth > 0;) {
    if (open == 0) return out;
    --open;
    if (signature[open] == ')') ++depth;
    if (signature[open] == '(') --depth;
  }
  std::string_view list = signature.substr(open + 1, close - open - 1);
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i == list.size() ? ',' : list[i];
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if ((c == '>' && !(i > 0 && list[i - 1] == '-')) || c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && (depth == 0 || i == list.size())) {
      std::string_view part = list.substr(start, i - start);
      while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
      while (!part.empty() && (part.back() == ' ' || part.back() == '&')) part.remove_suffix(1);
      if (!part.empty()) out.push_back(part);
      start = i + 1;
    }
  }
  return out;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Size of the largest element type that a text names; 4 if it names none.
std::uint8_t element_bytes_in(std::string_view text) {
  if (contains(text, "double") || contains(text, "long") || contains(text, "complex")) return 8;
  if (contains(text, "float") || contains(text, "int")) return 4;
  if (contains(text, "Half") || contains(text, "BFloat16") || contains(text, "short") ||
      contains(text, "__half") || contains(text, "bfloat16")) {
    return 2;
  }
  if (contains(text, "bool") || contains(text, "char") || contains(text, "Float8")) return 1;
  return 4;
}

/// "float*" and "float* restrict": a pointer through which the kernel may write.
bool is_writable_pointer(std::string_view type) {
  for (std::string_view suffix : {" restrict", "__restrict__", "const", " "}) {
    while (type.ends_with(suffix) && type.size() > suffix.size()) type.remove_suffix(suffix.size());
  }
  if (!type.ends_with('*') || contains(type, "(*)")) return false;
  type.remove_suffix(1);
  return !type.ends_with("const") && !type.ends_with("const ");
}

/// Structures of PyTorch whose first field is a pointer to what they describe.
bool is_tensor_view(std::string_view type) {
  const std::size_t angle = type.find('<');
  if (angle == std::string_view::npos) return false;
  const std::string_view head = type.substr(0, angle);
  const bool is_view = head.ends_with("::TensorInfo") || contains(head, "PackedTensorAccessor");
  const std::string_view element = type.substr(angle + 1, type.find(',') - angle - 1);
  return is_view && !element.ends_with("const");
}

// A table for a process with torch in it, which registers some 19,000 kernels.
constexpr std::size_t kFirstCapacity = std::size_t{1} << 16;

std::size_t hash_of(const void* key) {
  return reinterpret_cast<std::uintptr_t>(key) * 0x9E3779B97F4A7C15ULL >> 20;
}

}  // namespace

std::vector<OutputArgument> outputs_of_signature(const std::string& demangled) {
  std::vector<OutputArgument> out;
  const std::vector<std::string_view> types = parameters(demangled);
  const std::uint8_t name_bytes = element_bytes_in(demangled);
  const bool is_strided = demangled.starts_with("void at::native::elementwise_kernel<") &&
                          contains(demangled, "at::native::gpu_kernel_impl");
  const bool counts_elements =
      !types.empty() && types.front() == "int" && contains(demangled, "elementwise_kernel");
  for (std::size_t i = 0; i < types.size() && i < 64; ++i) {
    const std::string_view type = types[i];
    OutputArgument output;
    output.index = static_cast<std::uint16_t>(i);
    output.count_index = counts_elements ? 0 : -1;
    if (type.starts_with("std::array<char*,")) {
      // PyTorch's elementwise kernels: the pointers of all operands, outputs first.
      output.element_bytes = name_bytes;
      out.push_back(output);
    } else if (is_strided) {
      if (i != 1) continue;
      output.is_strided = true;
      out.push_back(output);
    } else if (is_writable_pointer(type)) {
      output.element_bytes = element_bytes_in(type);
      output.count_index = -1;
      out.push_back(output);
    } else if (is_tensor_view(type)) {
      output.element_bytes = element_bytes_in(type.substr(0, type.find(',')));
      output.count_index = -1;
      if (contains(type, "::TensorInfo<"))
        output.view_index_bytes = contains(type.substr(type.find(',')), "long") ? 8 : 4;
      out.push_back(output);
    }
  }
  return out;
}

const Kernel::Facts& Kernel::facts() const {
  const Facts* known = facts_.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  auto* made = new Facts;  // lives as long as the kernel, which lives as long as the process
  const std::string text = demangle(name());
  made->outputs = outputs_of_signature(text);
  made->movement = movement_of_signature(text);
  made->small = small_kernel_of_signature(text);
  // PyTorch's vectorised kernels give a thread 4 to 16 elements, its reductions and Triton's
  // kernels some 8.
  if (contains(text, "elementwise_kernel") || contains(text, "multi_tensor_apply")) {
    made->elements_per_thread = 8;
  } else if (contains(text, "reduce_kernel") || contains(text, "triton_")) {
    made->elements_per_thread = 8;
  } else {
    made->elements_per_thread = 4;
  }
  if (!facts_.compare_exchange_strong(known, made, std::memory_order_acq_rel)) {
    delete made;
    return *known;
  }
  return *made;
}

const std::vector<OutputArgument>& Kernel::outputs() const {
  return facts().outputs;
}
const Movement& Kernel::movement() const {
  return facts().movement;
}
const SmallKernel& Kernel::small() const {
  return facts().small;
}
double Kernel::elements_per_thread() const {
  return facts().elements_per_thread;
}

KernelTable::KernelTable() {
  all_.push_back(std::make_unique<Slots>(kFirstCapacity));
  slots_.store(all_.back().get(), std::memory_order_release);
}

KernelTable::Slot* KernelTable::slot_of(const Slots& slots, const void* key) {
  const std::size_t mask = slots.capacity - 1;
  for (std::size_t i = hash_of(key) & mask;; i = (i + 1) & mask) {
    Slot& slot = slots.at[i];
    const void* found = slot.key.load(std::memory_order_acquire);
    if (found == key || found == nullptr) return &slot;
  }
}

void KernelTable::insert_locked(const void* key, Kernel* kernel) {
  Slots* slots = slots_.load(std::memory_order_relaxed);
  if ((used_ + 1) * 2 > slots->capacity) {
    auto grown = std::make_unique<Slots>(slots->capacity * 2);
    for (std::size_t i = 0; i < slots->capacity; ++i) {
      const void* old = slots->at[i].key.load(std::memory_order_relaxed);
      if (old == nullptr) continue;
      Slot* to = slot_of(*grown, old);
      to->kernel.store(slots->at[i].kernel.load(std::memory_order_relaxed),
                       std::memory_order_relaxed);
      to->key.store(old, std::memory_order_relaxed);
    }
    slots = grown.get();
    all_.push_back(std::move(grown));
    slots_.store(slots, std::memory_order_release);
  }
  Slot* slot = slot_of(*slots, key);
  if (slot->key.load(std::memory_order_relaxed) == nullptr) ++used_;
  // The value first: a reader that sees the key must see the kernel.
  slot->kernel.store(kernel, std::memory_order_release);
  slot->key.store(key, std::memory_order_release);
}

Kernel* KernelTable::add(const void* key, const char* name, const void* module) {
  base::MutexLock lock(mutex_);
  kernels_.push_back(std::make_unique<Kernel>(name, module));
  Kernel* kernel = kernels_.back().get();
  if (key != nullptr) insert_locked(key, kernel);
  insert_locked(kernel, kernel);          // a cudaKernel_t, a CUfunction
  insert_locked(kernel->name(), kernel);  // for find_by_name
  return kernel;
}

Kernel* KernelTable::find(const void* key) const {
  if (key == nullptr) return nullptr;
  const Slot* slot = slot_of(*slots_.load(std::memory_order_acquire), key);
  return slot->key.load(std::memory_order_acquire) == key
             ? slot->kernel.load(std::memory_order_acquire)
             : nullptr;
}

std::size_t KernelTable::size() const {
  base::MutexLock lock(mutex_);
  return kernels_.size();
}

KernelTable& kernels() {
  static KernelTable* table =
      new KernelTable;  // never destroyed: libraries unregister after static objects are gone
  return *table;
}

}  // namespace levee::simgpu
