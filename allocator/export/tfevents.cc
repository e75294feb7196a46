#include "allocator/export/tfevents.h"

#include <bit>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "allocator/export/proto_writer.h"
#include "allocator/record/crc32c.h"

namespace levee::exporting {
namespace {

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc =
      record::crc32c({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  return out;
}

// metadata { plugin_data { plugin_name } }
std::string plugin_metadata(std::string_view name) {
  return ProtoWriter().message(1, ProtoWriter().text(1, name).bytes()).take();
}

std::string chart_message(const ScalarChart& chart) {
  ProtoWriter content;
  if (chart.lower.empty()) {
    ProtoWriter lines;
    for (const std::string& tag : chart.tags) lines.text(1, tag);
    content.text(1, chart.title).message(2, lines.bytes());
  } else {
    ProtoWriter series;
    series.text(1, chart.lower).text(2, chart.lower).text(3, chart.upper);
    content.text(1, chart.title).message(3, ProtoWriter().message(1, series.bytes()).bytes());
  }
  return content.take();
}

}  // namespace

std::unique_ptr<EventFile> EventFile::create(const std::string& folder, double wall_time,
                                             const std::string& host, std::uint32_t pid,
                                             std::string* why) {
  if (!make_folders(folder, why)) return nullptr;
  std::string safe_host;
  for (const char c : host) safe_host.push_back(c == '/' || c == '\0' ? '_' : c);
  const std::string path =
      fmt::format("{}/events.out.tfevents.{}.{}.{}", folder, static_cast<std::int64_t>(wall_time),
                  safe_host.empty() ? "host" : safe_host, pid);
  auto file = FileSink::create(path, FileCoding::kPlain, why);
  if (file == nullptr) return nullptr;
  std::unique_ptr<EventFile> out(new EventFile(std::move(file), path));
  out->record(ProtoWriter().fixed64(1, wall_time).text(3, "brain.Event:2").bytes());
  return out;
}

void EventFile::record(std::string_view event) {
  const std::string length = little_endian(event.size(), 8);
  file_->write(length);
  file_->write(little_endian(masked_crc(length), 4));
  file_->write(event);
  file_->write(little_endian(masked_crc(event), 4));
}

void EventFile::scalar(std::string_view tag, double wall_time, std::int64_t step, double value) {
  ProtoWriter content;
  content.text(1, tag).fixed32(2, static_cast<float>(value));
  content.message(9, plugin_metadata("scalars"));
  ProtoWriter event;
  event.fixed64(1, wall_time).varint(2, static_cast<std::uint64_t>(step));
  event.message(5, ProtoWriter().message(1, content.bytes()).bytes());
  record(event.bytes());
}

void EventFile::layout(double wall_time, const std::vector<ScalarCategory>& categories) {
  ProtoWriter layout;
  for (const ScalarCategory& category : categories) {
    ProtoWriter message;
    message.text(1, category.title);
    for (const ScalarChart& chart : category.charts) message.message(2, chart_message(chart));
    layout.message(2, message.bytes());
  }
  constexpr std::uint64_t kDtString = 7;  // tensorflow DataType
  ProtoWriter tensor;
  tensor.varint(1, kDtString).message(2, "").text(8, layout.bytes());
  ProtoWriter content;
  content.text(1, "custom_scalars__config__").message(8, tensor.bytes());
  content.message(9, plugin_metadata("custom_scalars"));
  ProtoWriter event;
  event.fixed64(1, wall_time).message(5, ProtoWriter().message(1, content.bytes()).bytes());
  record(event.bytes());
}

}  // namespace levee::exporting
