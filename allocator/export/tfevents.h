// TensorBoard's event files, written without TensorBoard: records with masked CRC-32C around
// hand-encoded protocol buffers.
//
// Owns the file until `commit`. Promises: what `tensorboard` 2.20 and later reads back as scalars,
// and a Custom Scalars layout. Values are float32 in that format: good for pictures, not for
// comparing bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/export/sinks.h"

namespace levee::exporting {

/// A chart of Custom Scalars with several tags in it; tags are regular expressions there.
struct ScalarChart {
  std::string title;
  std::vector<std::string> tags;
  /// The band between two of the tags: value = lower = `lower`, upper = `upper`. Used if `lower` is
  /// not empty.
  std::string lower;
  std::string upper;
};

struct ScalarCategory {
  std::string title;
  std::vector<ScalarChart> charts;
};

class EventFile {
 public:
  /// Makes `folder` and a file with the name that TensorBoard looks for. Null with one sentence in
  /// `why`.
  static std::unique_ptr<EventFile> create(const std::string& folder, double wall_time,
                                           const std::string& host, std::uint32_t pid,
                                           std::string* why);

  void scalar(std::string_view tag, double wall_time, std::int64_t step, double value);
  void layout(double wall_time, const std::vector<ScalarCategory>& categories);
  bool commit(std::string* why) { return file_->commit(why); }
  const std::string& path() const { return path_; }

 private:
  EventFile(std::unique_ptr<FileSink> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  void record(std::string_view event);

  std::unique_ptr<FileSink> file_;
  std::string path_;
};

}  // namespace levee::exporting
