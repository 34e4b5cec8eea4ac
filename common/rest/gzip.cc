#include "common/rest/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <new>

#include "absl/cleanup/cleanup.h"
#include "common/status/errors.h"

namespace escapement::rest {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, with a gzip header
constexpr int kLevel = 1;             // answers are small; speed counts
constexpr int kMemory = 8;            // zlib's default
constexpr size_t kStepBytes = 64 << 10;

// zlib takes input that it does not change as non-const.
Bytef* Input(absl::string_view bytes) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
}

}  // namespace

std::string Gzipped(absl::string_view plain) {
  z_stream stream = {};
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  const absl::Cleanup end = [&stream] { deflateEnd(&stream); };
  std::string packed(deflateBound(&stream, plain.size()), '\0');
  stream.next_in = Input(plain);
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);  // the bound lets it end in one call
  packed.resize(stream.total_out);
  return packed;
}

absl::StatusOr<std::string> Gunzipped(absl::string_view packed, size_t bytes_max) {
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  const absl::Cleanup end = [&stream] { inflateEnd(&stream); };
  stream.next_in = Input(packed);
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string plain;
  while (true) {
    const size_t had = plain.size();
    plain.resize(std::min(had + kStepBytes, bytes_max + 1));
    stream.next_out = reinterpret_cast<Bytef*>(plain.data() + had);
    stream.avail_out = static_cast<uInt>(plain.size() - had);
    const int result = inflate(&stream, Z_NO_FLUSH);
    plain.resize(plain.size() - stream.avail_out);
    if (plain.size() > bytes_max) {
      return MakeError(absl::StatusCode::kResourceExhausted, "BODY_TOO_LARGE",
                       "the unpacked body is too large");
    }
    if (result == Z_STREAM_END && stream.avail_in == 0) return plain;
    const bool stuck = stream.avail_in == 0 && stream.avail_out > 0;
    if (result != Z_OK || stuck) return InvalidField("body", "is not valid gzip");
  }
}

}  // namespace escapement::rest
