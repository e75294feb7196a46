// What libsimgpu.so shows to the stand-in libraries that are built with it. Not an interface for
// anybody else: that is simgpu_abi.h.
#pragma once

#define SIMGPU_CORE __attribute__((visibility("default")))
