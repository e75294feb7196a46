// Where exported bytes go: a file that appears complete or not at all, or a string.
//
// Owns the file under a temporary name beside its final one. Promises: until `commit` succeeded
// nothing exists under the final name, and an existing file there is untouched; without `commit`
// the temporary file is removed; the first failure is remembered and said by `commit` in one
// sentence, so that writers need not check each call. Single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace levee::exporting {

class ByteSink {
 public:
  ByteSink() = default;
  ByteSink(const ByteSink&) = delete;
  ByteSink& operator=(const ByteSink&) = delete;
  virtual ~ByteSink() = default;
  virtual void write(std::string_view bytes) = 0;
};

class StringSink final : public ByteSink {
 public:
  void write(std::string_view bytes) override { text_ += bytes; }
  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

enum class FileCoding : std::uint8_t { kPlain, kGzip };

class FileSink final : public ByteSink {
 public:
  /// Null with one sentence in `why` if the file cannot be made.
  static std::unique_ptr<FileSink> create(const std::string& path, FileCoding coding,
                                          std::string* why);
  ~FileSink() override;

  void write(std::string_view bytes) override;
  /// Bytes given to `write` so far.
  std::uint64_t size() const { return size_; }
  /// Makes the file appear. False with one sentence in `why` if anything failed on the way.
  bool commit(std::string* why);

 private:
  struct Gzip;
  FileSink(std::string path, std::string temporary, int descriptor, FileCoding coding);
  void flush_buffer();
  void write_out(std::string_view bytes);

  std::string path_;
  std::string temporary_;
  int descriptor_;
  std::unique_ptr<Gzip> gzip_;
  std::string buffer_;
  std::uint64_t size_ = 0;
  int error_ = 0;  // errno of the first failure
};

/// `bytes` as one zlib stream.
std::string deflate(std::string_view bytes);

/// Makes a folder and those above it. False with one sentence in `why`.
bool make_folders(const std::string& path, std::string* why);

}  // namespace levee::exporting
