#include <levee/levee.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  if (levee_abi_version() != LEVEE_ABI_VERSION) return 1;
  if (strlen(levee_version()) == 0) return 2;
  if (levee_set_option("no such option", "1") == LEVEE_OK) return 3;
  printf("C: %s\n", levee_last_error());
  return strlen(levee_last_error()) == 0;
}
