#include "common/rest/json_bytes.h"

#include <google/protobuf/type.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver.h>
#include <google/protobuf/util/type_resolver_util.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/rest/strict_json.h"
#include "common/status/errors.h"

namespace escapement::rest {

namespace {

namespace util = google::protobuf::util;

constexpr char kTypePrefix[] = "type.googleapis.com";

// Keeps the types of the linked descriptors, which do not change.
class KnownTypes final : public util::TypeResolver {
 public:
  // `answers`: the types as answers are written by them.
  explicit KnownTypes(bool answers) : answers_(answers) {}

  util::Status ResolveMessageType(const std::string& url, google::protobuf::Type* type) override {
    absl::MutexLock lock(&mutex_);
    return Resolve(url, &util::TypeResolver::ResolveMessageType, types_, type);
  }
  util::Status ResolveEnumType(const std::string& url, google::protobuf::Enum* type) override {
    absl::MutexLock lock(&mutex_);
    return Resolve(url, &util::TypeResolver::ResolveEnumType, enums_, type);
  }

 private:
  template <typename Type>
  using Known = absl::flat_hash_map<std::string, std::unique_ptr<const Type>>;

  template <typename Type>
  util::Status Resolve(const std::string& url,
                       util::Status (util::TypeResolver::*ask)(const std::string&, Type*),
                       Known<Type>& known, Type* type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = known.find(url);
    if (found != known.end()) {
      *type = *found->second;
      return util::Status();
    }
    const util::Status resolved = (descriptors_.get()->*ask)(url, type);
    if (answers_ && resolved.ok()) LeaveOutWithoutValue(*type);
    // A URL of a client that names no type is not kept.
    if (resolved.ok()) known.emplace(url, std::make_unique<const Type>(*type));
    return resolved;
  }

  // Empty bytes are those that a list does not return, and an enum without a value has nothing to
  // tell. json_util writes a default unless the field is of a oneof, and reads this number for
  // nothing else.
  static void LeaveOutWithoutValue(google::protobuf::Type& type) {
    using Field = google::protobuf::Field;
    for (Field& field : *type.mutable_fields()) {
      const bool without = field.kind() == Field::TYPE_BYTES || field.kind() == Field::TYPE_ENUM;
      if (without && field.cardinality() != Field::CARDINALITY_REPEATED) field.set_oneof_index(1);
    }
  }
  static void LeaveOutWithoutValue(google::protobuf::Enum&) {}

  const bool answers_;
  absl::Mutex mutex_;
  const std::unique_ptr<util::TypeResolver> descriptors_{util::NewTypeResolverForDescriptorPool(
      kTypePrefix, google::protobuf::DescriptorPool::generated_pool())};
  Known<google::protobuf::Type> types_ ABSL_GUARDED_BY(mutex_);
  Known<google::protobuf::Enum> enums_ ABSL_GUARDED_BY(mutex_);
};

KnownTypes* Types() {
  static auto* const types = new KnownTypes(/*answers=*/false);
  return types;
}

KnownTypes* AnswerTypes() {
  static auto* const types = new KnownTypes(/*answers=*/true);
  return types;
}

std::string UrlOf(const google::protobuf::Descriptor& type) {
  return absl::StrCat(kTypePrefix, "/", type.full_name());
}

absl::string_view TextOf(const util::Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace

absl::StatusOr<std::string> JsonToBytes(const google::protobuf::Descriptor& type,
                                        absl::string_view json) {
  ASSIGN_OR_RETURN(const std::string strict, StrictJson(type, json));
  std::string bytes;
  bytes.reserve(strict.size());
  const auto status = util::JsonToBinaryString(Types(), UrlOf(type), strict, &bytes);
  if (!status.ok()) return absl::InvalidArgumentError(TextOf(status));
  return bytes;
}

absl::StatusOr<std::string> BytesToJson(const google::protobuf::Descriptor& type,
                                        const std::string& bytes) {
  std::string json;
  json.reserve(2 * bytes.size());
  util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  const auto status = util::BinaryToJsonString(AnswerTypes(), UrlOf(type), bytes, &json, options);
  if (!status.ok())
    return absl::InternalError(absl::StrCat("an answer that is not JSON: ", TextOf(status)));
  return json;
}

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

namespace {

absl::Status NotGzip() { return InvalidField("body", "is not valid gzip"); }

}  // namespace

struct GunzipStream::State {
  z_stream zlib = {};
  std::string packed;
  size_t taken = 0;    // bytes of `packed` that zlib has taken
  bool ended = false;  // the end of the gzip was read
  bool faulty = false;
};

GunzipStream::GunzipStream() : state_(std::make_unique<State>()) {
  if (inflateInit2(&state_->zlib, kGzipWindow) != Z_OK) throw std::bad_alloc();
}

GunzipStream::~GunzipStream() { inflateEnd(&state_->zlib); }

void GunzipStream::Add(absl::string_view packed) {
  state_->packed.erase(0, std::exchange(state_->taken, 0));
  state_->packed.append(packed.data(), packed.size());
}

absl::StatusOr<std::string> GunzipStream::Next() {
  State& state = *state_;
  std::string plain(kStepBytes, '\0');
  const absl::string_view left = absl::string_view(state.packed).substr(state.taken);
  state.zlib.next_in = Input(left);
  state.zlib.avail_in = static_cast<uInt>(left.size());
  state.zlib.next_out = reinterpret_cast<Bytef*>(plain.data());
  state.zlib.avail_out = static_cast<uInt>(plain.size());
  // Z_BUF_ERROR: it needs more of the body.
  const int result = state.ended ? Z_STREAM_END : inflate(&state.zlib, Z_NO_FLUSH);
  state.ended = result == Z_STREAM_END;
  plain.resize(plain.size() - state.zlib.avail_out);
  state.taken = state.packed.size() - state.zlib.avail_in;
  state.faulty = state.faulty || (state.ended && state.zlib.avail_in > 0) ||
                 (result != Z_OK && result != Z_BUF_ERROR && !state.ended);
  if (state.faulty) return NotGzip();
  return plain;
}

bool GunzipStream::complete() const {
  return state_->ended && state_->taken == state_->packed.size();
}

absl::StatusOr<std::string> Gunzipped(absl::string_view packed, size_t bytes_max) {
  GunzipStream stream;
  stream.Add(packed);
  std::string plain;
  while (true) {
    ASSIGN_OR_RETURN(const std::string part, stream.Next());
    plain += part;
    if (plain.size() > bytes_max) {
      return MakeError(absl::StatusCode::kResourceExhausted, "BODY_TOO_LARGE",
                       "the unpacked body is too large");
    }
    if (stream.complete()) return plain;
    if (part.empty()) return NotGzip();
  }
}

absl::Status MessageFromJson(absl::string_view json, google::protobuf::Message& message) {
  ASSIGN_OR_RETURN(const std::string bytes, JsonToBytes(*message.GetDescriptor(), json));
  if (message.ParseFromString(bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError("a string is not valid UTF-8");
}

absl::StatusOr<v1::Event> EventFromJson(absl::string_view json) {
  v1::Event event;
  RETURN_IF_ERROR(MessageFromJson(json, event));
  return event;
}

std::optional<v1::IngestEvent> ToIngestEvent(v1::Event event) {
  v1::IngestEvent ingested;
  if (event.has_due_time()) {
    const std::optional<int64_t> micros = TimestampMicros(event.due_time());
    if (!micros.has_value()) return std::nullopt;
    ingested.set_due_time_micros(*micros);
  }
  ingested.set_event_id(event.event_id());
  ingested.set_payload(std::move(*event.mutable_payload()));
  ingested.set_mode(event.mode());
  event.clear_event_id();
  event.clear_mode();
  event.clear_due_time();
  event.clear_payload();
  *ingested.mutable_overrides() = std::move(event);
  return ingested;
}

}  // namespace escapement::rest
