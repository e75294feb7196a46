#include <iostream>

#include <levee/levee.h>
#include <levee/units.h>

int main() {
  using namespace levee;
  std::cout << "C++: " << levee_version() << ", " << (2_MiB / 512_B) << " granules\n";
  return levee_abi_version() == LEVEE_ABI_VERSION ? 0 : 1;
}
