#include "allocator/export/sinks.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <fmt/format.h>

namespace levee::exporting {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;
// 15 is the largest window; 16 more asks for a gzip frame (zlib.h, deflateInit2).
constexpr int kGzipWindow = 15 + 16;
// Level 3 of 9, chosen: traces compress to within a tenth of level 6 in less than half of its time.
constexpr int kLevel = 3;

std::string reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace

struct FileSink::Gzip {
  z_stream stream{};
  bool is_ready = false;
  Gzip() {
    is_ready =
        deflateInit2(&stream, kLevel, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Gzip() {
    if (is_ready) deflateEnd(&stream);
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
};

std::unique_ptr<FileSink> FileSink::create(const std::string& path, FileCoding coding,
                                           std::string* why) {
  const std::string temporary = fmt::format("{}.{}.part", path, ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    *why = fmt::format("Cannot write {}: {}.", path, reason(errno));
    return nullptr;
  }
  return std::unique_ptr<FileSink>(new FileSink(path, temporary, descriptor, coding));
}

FileSink::FileSink(std::string path, std::string temporary, int descriptor, FileCoding coding)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {
  if (coding == FileCoding::kGzip) {
    gzip_ = std::make_unique<Gzip>();
    if (!gzip_->is_ready) error_ = ENOMEM;
  }
  buffer_.reserve(kBufferBytes);
}

FileSink::~FileSink() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileSink::write(std::string_view bytes) {
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) flush_buffer();
  if (bytes.size() >= kBufferBytes) {
    buffer_.assign(bytes);
    flush_buffer();
    return;
  }
  buffer_ += bytes;
}

void FileSink::flush_buffer() {
  if (error_ == 0 && !buffer_.empty()) {
    if (gzip_ == nullptr) {
      write_out(buffer_);
    } else {
      std::array<char, 1U << 16> out;
      z_stream& z = gzip_->stream;
      z.next_in = reinterpret_cast<Bytef*>(buffer_.data());
      z.avail_in = static_cast<uInt>(buffer_.size());
      while (z.avail_in > 0 && error_ == 0) {
        z.next_out = reinterpret_cast<Bytef*>(out.data());
        z.avail_out = static_cast<uInt>(out.size());
        ::deflate(&z, Z_NO_FLUSH);
        write_out({out.data(), out.size() - z.avail_out});
      }
    }
  }
  buffer_.clear();
}

void FileSink::write_out(std::string_view bytes) {
  while (!bytes.empty() && error_ == 0) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno != EINTR) error_ = errno;
      continue;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

bool FileSink::commit(std::string* why) {
  flush_buffer();
  if (gzip_ != nullptr && error_ == 0) {
    std::array<char, 1U << 16> out;
    z_stream& z = gzip_->stream;
    z.avail_in = 0;
    int state = Z_OK;
    while (state == Z_OK && error_ == 0) {
      z.next_out = reinterpret_cast<Bytef*>(out.data());
      z.avail_out = static_cast<uInt>(out.size());
      state = ::deflate(&z, Z_FINISH);
      write_out({out.data(), out.size() - z.avail_out});
    }
  }
  if (::close(std::exchange(descriptor_, -1)) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && ::rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ != 0) {
    *why = fmt::format("Cannot write {}: {}.", path_, reason(error_));
    return false;
  }
  temporary_.clear();
  return true;
}

std::string deflate(std::string_view bytes) {
  uLongf size = ::compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  // compress2 fails only for want of memory or of room; compressBound is enough room.
  if (::compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                  reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()),
                  kLevel) != Z_OK) {
    size = 0;
  }
  out.resize(size);
  return out;
}

bool make_folders(const std::string& path, std::string* why) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path, error)) {
    *why = fmt::format("Cannot make the folder {}: {}.", path,
                       error ? error.message() : reason(ENOTDIR));
    return false;
  }
  return true;
}

}  // namespace levee::exporting
