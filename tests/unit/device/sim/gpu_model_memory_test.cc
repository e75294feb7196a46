// Capacity, allocations, handles, ranges and what an address belongs to.
#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

using ::testing::ElementsAre;

class Memory : public ModelTest {
 protected:
  Memory() : ModelTest(without_leak_reports()) {}
  static ModelConfig without_leak_reports() {
    ModelConfig config = small_config();
    config.report_leaks = false;
    return config;
  }
  Bytes free_memory() { return model.memory_info(kGpu)->free; }
};

TEST_F(Memory, AllocationsTakeWholePagesAndSmallOnesShareThem) {
  ASSERT_TRUE(model.allocate(kGpu, 3_MiB).ok());
  EXPECT_EQ(free_memory(), 252_MiB);
  std::vector<DeviceAddr> small;
  for (int i = 0; i < 2'048; ++i) small.push_back(model.allocate(kGpu, 1_KiB).value());
  EXPECT_EQ(free_memory(), 250_MiB);
  ASSERT_TRUE(model.allocate(kGpu, 1_B).ok());
  EXPECT_EQ(free_memory(), 248_MiB);
  for (const DeviceAddr addr : small) ASSERT_TRUE(model.release(addr).ok());
  EXPECT_EQ(free_memory(), 250_MiB);
  EXPECT_EQ(model.memory_use(kGpu).peak_used, 8_MiB);
  model.validate();
}

TEST_F(Memory, SmallAllocationsAreDisjointAligned512AndReused) {
  const DeviceAddr first = model.allocate(kGpu, 700_B).value();
  const DeviceAddr second = model.allocate(kGpu, 1_B).value();
  EXPECT_EQ(first.value % 512, 0U);
  EXPECT_EQ(second, first + 1_KiB);
  ASSERT_TRUE(model.release(first).ok());
  EXPECT_EQ(model.allocate(kGpu, 1_KiB).value(), first);
  EXPECT_NE(model.allocate(kGpu, 1_KiB).value(), first);
}

TEST_F(Memory, ASmallAllocationGoesWhereThereIsRoomForItAlsoAfterOthersWent) {
  const DeviceAddr first = model.allocate(kGpu, 512_KiB).value();
  const DeviceAddr second = model.allocate(kGpu, 512_KiB).value();
  ASSERT_TRUE(model.release(second).ok());
  // The page has 1.5 MiB; of these two one fits.
  const DeviceAddr third = model.allocate(kGpu, 900_KiB).value();
  const DeviceAddr fourth = model.allocate(kGpu, 900_KiB).value();
  EXPECT_EQ(model.memory_use(kGpu).used, 4_MiB);
  EXPECT_EQ(model.find(third).bytes, 900_KiB);
  EXPECT_EQ(model.find(fourth).bytes, 900_KiB);
  // The page of which all went is not one to allocate from.
  for (const DeviceAddr addr : {first, third, fourth}) ASSERT_TRUE(model.release(addr).ok());
  EXPECT_EQ(model.memory_use(kGpu).used, Bytes{});
  const DeviceAddr again = model.allocate(kGpu, 512_KiB).value();
  EXPECT_EQ(model.find(again).bytes, 512_KiB);
  EXPECT_EQ(model.memory_use(kGpu).used, 2_MiB);
}

TEST_F(Memory, CapacityIsEnforcedAndSharedWithOtherProcesses) {
  EXPECT_EQ(native_of(model.allocate(kGpu, 257_MiB).status()), Native::kOutOfMemory);
  model.set_used_by_others(kGpu, 250_MiB);
  EXPECT_EQ(free_memory(), 6_MiB);
  EXPECT_EQ(native_of(model.create_handle(kGpu, 8_MiB).status()), Native::kOutOfMemory);
  ASSERT_TRUE(model.create_handle(kGpu, 6_MiB).ok());
  EXPECT_EQ(free_memory(), Bytes{});
  model.set_used_by_others(kGpu, 256_MiB);  // more than fits: they were there first
  EXPECT_EQ(free_memory(), Bytes{});
  model.set_used_by_others(kGpu, Bytes{});
  EXPECT_EQ(free_memory(), 250_MiB);
}

TEST_F(Memory, TheContextTakesItsShareAtTheFirstCall) {
  ModelConfig config = small_config();
  config.devices[0].context_bytes = 100_MiB;
  GpuModel other(config);
  EXPECT_EQ(other.memory_use(kGpu).used, Bytes{});
  EXPECT_EQ(other.memory_info(kGpu)->free, 156_MiB);
  other.validate();
}

TEST_F(Memory, AnAddressIsDescribed) {
  const DeviceAddr block = model.allocate(kGpu, 3_MiB).value();
  AddressInfo info = model.find(block + 1_MiB);
  EXPECT_EQ(info.kind, MemoryKind::kAllocation);
  EXPECT_EQ(info.base, block);
  EXPECT_EQ(info.bytes, 3_MiB);
  EXPECT_EQ(model.find(block + 3_MiB).kind, MemoryKind::kNone);  // the rounding is nobody's

  const DeviceAddr range = model.reserve_range(kGpu, 8_MiB, Bytes{}).value();
  const HandleId handle = model.create_handle(kGpu, 4_MiB).value();
  ASSERT_TRUE(model.map(range + 2_MiB, 4_MiB, handle).ok());
  info = model.find(range + 5_MiB);
  EXPECT_EQ(info.kind, MemoryKind::kMapped);
  EXPECT_EQ(info.base, range + 2_MiB);
  EXPECT_EQ(info.bytes, 4_MiB);
  EXPECT_EQ(info.handle, handle);
  EXPECT_EQ(info.range_base, range);
  EXPECT_FALSE(info.accessible);
  ASSERT_TRUE(model.set_access(range + 2_MiB, 4_MiB, kGpu).ok());
  EXPECT_TRUE(model.find(range + 5_MiB).accessible);
  info = model.find(range + 1_MiB);
  EXPECT_EQ(info.kind, MemoryKind::kReserved);
  EXPECT_EQ(info.bytes, 8_MiB);
  EXPECT_EQ(model.find(DeviceAddr{0x1000}).kind, MemoryKind::kNone);
  EXPECT_EQ(model.find(DeviceAddr{~0ULL}).kind, MemoryKind::kNone);
}

TEST_F(Memory, DeviceMemoryIsToldFromOtherRanges) {
  const DeviceAddr block = model.allocate(kGpu, 3_MiB).value();
  const DeviceAddr small = model.allocate(kGpu, 1_KiB).value();
  EXPECT_TRUE(model.is_device_memory(block, 3_MiB));
  EXPECT_FALSE(model.is_device_memory(block, 3_MiB + 1_B));
  EXPECT_TRUE(model.is_device_memory(small + 1023_B, 1_B));
  EXPECT_FALSE(model.is_device_memory(small + 1_B, 1_KiB));
  EXPECT_FALSE(model.is_device_memory(DeviceAddr{16}, 1_B));
  EXPECT_FALSE(model.is_device_memory(DeviceAddr{~0ULL}, 2_B));
}

TEST_F(Memory, ARetainedHandleOutlivesItsRelease) {
  const DeviceAddr range = model.reserve_range(kGpu, 2_MiB, Bytes{}).value();
  const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.map(range, 2_MiB, handle).ok());
  EXPECT_EQ(model.retain_handle(range).value(), handle);
  ASSERT_TRUE(model.release_handle(handle).ok());
  ASSERT_TRUE(model.release_handle(handle).ok());
  const HandleId again = model.retain_handle(range).value();  // still mapped: it gets a name again
  EXPECT_NE(again, handle);
  ASSERT_TRUE(model.unmap(range, 2_MiB).ok());
  EXPECT_EQ(model.memory_use(kGpu).used, 2_MiB);
  ASSERT_TRUE(model.release_handle(again).ok());
  EXPECT_EQ(model.memory_use(kGpu).used, Bytes{});
}

TEST_F(Memory, UsageIsCountedByKind) {
  const auto pages = new_pages(2);
  map_run(pages);
  map_run({pages[1]});
  ASSERT_TRUE(model.allocate(kGpu, 1_KiB).ok());
  const MemoryUse use = model.memory_use(kGpu);
  EXPECT_EQ(use.handles, 2U);
  EXPECT_EQ(use.mappings, 4U);  // three slots, and the page of the small allocation
  EXPECT_EQ(use.mapped, 8_MiB);
  EXPECT_EQ(use.ranges, 2U);
  EXPECT_EQ(use.allocations, 1U);
  EXPECT_EQ(use.used, 6_MiB);
  EXPECT_EQ(use.free, 250_MiB);
}

TEST_F(Memory, AddressesAreReusedLowestFirst) {
  const DeviceAddr a = model.reserve_range(kGpu, 4_MiB, Bytes{}).value();
  const DeviceAddr b = model.reserve_range(kGpu, 4_MiB, Bytes{}).value();
  EXPECT_EQ(b, a + 4_MiB);
  ASSERT_TRUE(model.free_range(a, 4_MiB).ok());
  EXPECT_EQ(model.reserve_range(kGpu, 2_MiB, Bytes{}).value(), a);
  EXPECT_EQ(model.reserve_range(kGpu, 2_MiB, Bytes{}).value(), a + 2_MiB);
  const DeviceAddr aligned = model.reserve_range(kGpu, 2_MiB, 1_GiB).value();
  EXPECT_EQ(aligned.value % (1ULL << 30), 0U);
  EXPECT_EQ(native_of(model.reserve_range(kGpu, 2_MiB, 3_MiB).status()), Native::kInvalidValue);
  EXPECT_EQ(native_of(model.reserve_range(kGpu, 1_MiB, Bytes{}).status()), Native::kInvalidValue);
  EXPECT_EQ(native_of(model.reserve_range(kGpu, 100'000_GiB, Bytes{}).status()),
            Native::kOutOfMemory);
}

TEST_F(Memory, RealAddressesAreReservedOnTheHost) {
  ModelConfig config = small_config();
  config.address_space = AddressSpaceMode::kReal;
  GpuModel real(config);
  const DeviceAddr block = real.allocate(kGpu, 2_MiB).value();
  const std::vector<char> host(16);
  const auto host_address = reinterpret_cast<std::uint64_t>(host.data());
  EXPECT_TRUE(host_address < block.value || host_address >= block.value + (2U << 20));
  EXPECT_EQ(real.find(DeviceAddr{host_address}).kind, MemoryKind::kNone);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(block.value) = 1, "");
  EXPECT_TRUE(real.release(block).ok());
}

TEST_F(Memory, ADeviceWithoutVirtualMemorySaysSo) {
  ModelConfig config = small_config();
  config.devices[0].has_vmm = false;
  GpuModel plain(config);
  EXPECT_EQ(plain.create_handle(kGpu, 2_MiB).code(), StatusCode::kUnsupported);
  EXPECT_EQ(plain.reserve_range(kGpu, 2_MiB, Bytes{}).code(), StatusCode::kUnsupported);
}

TEST_F(Memory, ALargerGranularityIsHeldTo) {
  ModelConfig config = small_config();
  config.devices[0].vmm_granularity = 4_MiB;
  GpuModel coarse(config);
  EXPECT_EQ(native_of(coarse.create_handle(kGpu, 2_MiB).status()), Native::kInvalidValue);
  const HandleId handle = coarse.create_handle(kGpu, 4_MiB).value();
  const DeviceAddr range = coarse.reserve_range(kGpu, 8_MiB, Bytes{}).value();
  EXPECT_FALSE(coarse.map(range + 2_MiB, 4_MiB, handle).ok());
  EXPECT_TRUE(coarse.map(range + 4_MiB, 4_MiB, handle).ok());
}

TEST_F(Memory, ALostDeviceFailsEveryCall) {
  model.lose_device(kGpu, Native::kIllegalAddress);
  EXPECT_EQ(model.allocate(kGpu, 2_MiB).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(model.synchronize_device(kGpu).code, StatusCode::kDeviceLost);
}

// ---- The stream-ordered pool

TEST_F(Memory, AFreedAsyncBlockIsReusedInItsStreamAtOnceAndElsewhereOnceOrdered) {
  const StreamId s1 = new_stream();
  const StreamId s2 = new_stream();
  const DeviceAddr block = model.allocate_async(kGpu, 4_MiB, s1).value();
  EXPECT_EQ(model.find(block).kind, MemoryKind::kAsync);
  ASSERT_TRUE(model.release_async(block, s1).ok());
  EXPECT_EQ(model.allocate_async(kGpu, 4_MiB, s1).value(), block);
  ASSERT_TRUE(model.release_async(block, s1).ok());
  const DeviceAddr other = model.allocate_async(kGpu, 4_MiB, s2).value();
  EXPECT_NE(other, block);
  order(s1, s2);
  EXPECT_EQ(model.allocate_async(kGpu, 4_MiB, s2).value(), block);
  EXPECT_EQ(model.async_pool_use(kGpu).used, 8_MiB);
  EXPECT_EQ(model.async_pool_use(kGpu).reserved_high, 8_MiB);
}

TEST_F(Memory, AsyncMemoryAboveTheThresholdGoesBackWhenTheHostSynchronises) {
  const StreamId s1 = new_stream();
  const DeviceAddr block = model.allocate_async(kGpu, 4_MiB, s1).value();
  ASSERT_TRUE(model.release_async(block, s1).ok());
  EXPECT_EQ(model.async_pool_use(kGpu).reserved, 4_MiB);
  ASSERT_TRUE(model.set_async_pool_threshold(kGpu, 4_MiB).ok());
  ASSERT_TRUE(model.synchronize_device(kGpu).ok());
  EXPECT_EQ(model.async_pool_use(kGpu).reserved, 4_MiB);
  ASSERT_TRUE(model.trim_async_pool(kGpu, Bytes{}).ok());
  EXPECT_EQ(model.async_pool_use(kGpu).reserved, Bytes{});
  EXPECT_EQ(model.memory_use(kGpu).used, Bytes{});
}

TEST_F(Memory, TheHighestUseOfTheAsyncPoolCanBeCountedAnew) {
  const StreamId s1 = new_stream();
  const DeviceAddr block = model.allocate_async(kGpu, 4_MiB, s1).value();
  ASSERT_TRUE(model.release_async(block, s1).ok());
  ASSERT_TRUE(model.synchronize_device(kGpu).ok());
  EXPECT_EQ(model.async_pool_use(kGpu).used_high, 4_MiB);
  ASSERT_TRUE(model.reset_async_pool_peaks(kGpu).ok());
  EXPECT_EQ(model.async_pool_use(kGpu).used_high, Bytes{});
  EXPECT_EQ(model.async_pool_use(kGpu).reserved_high, Bytes{});
}

TEST_F(Memory, APlainAllocationMayUseWhatTheAsyncPoolHoldsInReserve) {
  const StreamId s1 = new_stream();
  ASSERT_TRUE(model.set_async_pool_threshold(kGpu, 256_MiB).ok());
  const DeviceAddr block = model.allocate_async(kGpu, 200_MiB, s1).value();
  ASSERT_TRUE(model.release_async(block, s1).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  EXPECT_TRUE(model.allocate(kGpu, 200_MiB).ok());
  EXPECT_FALSE(model.release_async(block, s1).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kBadRelease));
}

TEST_F(Memory, AnotherProcessesMemoryTakesNothingAndIsClosedNotFreed) {
  const DeviceAddr opened = model.import_allocation(kGpu, 4_MiB).value();
  EXPECT_EQ(free_memory(), 256_MiB);
  EXPECT_EQ(model.find(opened + 3_MiB).kind, MemoryKind::kImported);
  EXPECT_EQ(native_of(model.release(opened)), Native::kInvalidValue);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kBadRelease));
  model.validate();
  ASSERT_TRUE(model.close_import(opened).ok());
  EXPECT_EQ(model.find(opened).kind, MemoryKind::kNone);
  EXPECT_EQ(native_of(model.close_import(opened)), Native::kInvalidValue);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kBadRelease));
  const DeviceAddr own = model.allocate(kGpu, 2_MiB).value();
  EXPECT_EQ(native_of(model.close_import(own)), Native::kInvalidValue);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kBadRelease));
  EXPECT_EQ(native_of(model.import_allocation(kGpu, 3_MiB).status()), Native::kInvalidValue);
}

TEST_F(Memory, ImportedHandlesAreMappedLikeOwnOnes) {
  const HandleId handle = model.import_handle(kGpu, 4_MiB).value();
  EXPECT_EQ(free_memory(), 256_MiB);
  EXPECT_EQ(model.physical_of(handle)->bytes, 4_MiB);
  const DeviceAddr range = model.reserve_range(kGpu, 4_MiB, {}).value();
  ASSERT_TRUE(model.map(range, 4_MiB, handle).ok());
  EXPECT_EQ(model.physical_bytes(range), 4_MiB);
  ASSERT_TRUE(model.release_handle(handle).ok());
  EXPECT_FALSE(model.physical_of(handle).has_value());
  model.validate();
  ASSERT_TRUE(model.unmap(range, 4_MiB).ok());
  EXPECT_EQ(free_memory(), 256_MiB);
  model.validate();
}

TEST_F(Memory, AnImportedHandleHasWholePagesToo) {
  EXPECT_EQ(native_of(model.import_handle(kGpu, 3_MiB).status()), Native::kInvalidValue);
  EXPECT_EQ(native_of(model.import_handle(kGpu, Bytes{}).status()), Native::kInvalidValue);
  EXPECT_EQ(model.memory_use(kGpu).handles, 0U);
}

TEST_F(Memory, AnyNumberMayBeAskedAbout) {
  for (const std::uint64_t addr : {std::uint64_t{0}, std::uint64_t{8}, ~std::uint64_t{0},
                                   ~std::uint64_t{0} - (1 << 21), std::uint64_t{1} << 63}) {
    EXPECT_FALSE(model.is_device_memory(DeviceAddr{addr}, 1_B));
    EXPECT_FALSE(model.is_device_memory(DeviceAddr{addr}, Bytes{~std::uint64_t{0}}));
    EXPECT_TRUE(model.physical_spans(DeviceAddr{addr}, 4_KiB).empty());
    EXPECT_EQ(model.access_of(DeviceAddr{addr}, kGpu), Access::kNone);
  }
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  EXPECT_FALSE(model.is_device_memory(block, Bytes{~std::uint64_t{0} >> 1}));
}

TEST(MemoryOfTwoDevices, AnAddressSaysWhatLiesThereAndWhose) {
  ModelConfig config = small_config(2);
  config.report_leaks = false;
  GpuModel model(config);
  const DeviceAddr small = model.allocate(kOtherGpu, 1_KiB).value();
  const DeviceAddr next = model.allocate(kOtherGpu, 2_KiB).value();
  const DeviceAddr large = model.allocate(kOtherGpu, 3_MiB).value();
  const DeviceAddr range = model.reserve_range(kOtherGpu, 8_MiB, Bytes{}).value();
  const HandleId handle = model.create_handle(kOtherGpu, 2_MiB).value();
  ASSERT_TRUE(model.map(range + 2_MiB, 2_MiB, handle).ok());

  AddressInfo info = model.find(next + 1_KiB);
  EXPECT_EQ(info.kind, MemoryKind::kAllocation);
  EXPECT_EQ(info.device, kOtherGpu);
  EXPECT_EQ(info.base, next);
  EXPECT_EQ(info.bytes, 2_KiB);
  EXPECT_TRUE(info.range_base.is_null());
  EXPECT_EQ(model.find(small).base, small);
  info = model.find(large + 2_MiB);
  EXPECT_EQ(info.base, large);
  EXPECT_EQ(info.bytes, 3_MiB);
  EXPECT_EQ(model.find(large + 3_MiB).kind, MemoryKind::kNone) << "the rounding is nobody's";
  info = model.find(range + 3_MiB);
  EXPECT_EQ(info.kind, MemoryKind::kMapped);
  EXPECT_EQ(info.handle, handle);
  EXPECT_EQ(info.base, range + 2_MiB);
  EXPECT_EQ(info.range_base, range);
  EXPECT_EQ(info.range_bytes, 8_MiB);
  info = model.find(range + 5_MiB);
  EXPECT_EQ(info.kind, MemoryKind::kReserved);
  EXPECT_EQ(info.device, kOtherGpu);
  EXPECT_EQ(info.base, range);
  EXPECT_EQ(info.bytes, 8_MiB);
  EXPECT_EQ(info.range_base, range);
  EXPECT_EQ(info.range_bytes, 8_MiB);
  // When the last piece of a page of small allocations goes, its neighbours are not found either.
  ASSERT_TRUE(model.release(small).ok());
  EXPECT_EQ(model.find(small).kind, MemoryKind::kNone);
  EXPECT_EQ(model.find(next).base, next);
}

}  // namespace
}  // namespace levee::device::sim
