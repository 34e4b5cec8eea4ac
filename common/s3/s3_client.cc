#include "common/s3/s3_client.h"

#include <openssl/evp.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/backoff/backoff.h"
#include "common/base/check.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/net/curl_options.h"

namespace escapement {
namespace {

constexpr size_t kAnswerBytesMax = 8 << 20;  // a page of 1000 keys of 1 KiB, escaped
constexpr size_t kReasonBytesMax = 512;
constexpr absl::Duration kConnectTimeout = absl::Seconds(10);
constexpr BackoffPolicy kBetweenAttempts = {
    .min = absl::Milliseconds(500), .max = absl::Seconds(16), .multiplier = 2};

// Sorted, as the signature wants it.
std::string QueryOf(S3Client::Parameters parameters) {
  std::sort(parameters.begin(), parameters.end());
  std::string query;
  for (const auto& [name, value] : parameters)
    absl::StrAppend(&query, query.empty() ? "" : "&", AwsEncode(name), "=", AwsEncode(value));
  return query;
}

// The value of Content-MD5, which buckets with locks of objects want.
std::string Md5Of(absl::string_view bytes) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), hash, &length, EVP_md5(), nullptr) != 1) return "";
  return absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(hash), length));
}

// Another attempt cannot succeed.
bool IsFinal(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_WRITE_ERROR:  // an answer above its bound
      return true;
    default:
      return false;
  }
}

}  // namespace

struct S3Client::Call {
  const char* method;
  std::string key = {};
  Parameters query = {};
  absl::string_view body = {};
  const char* content_type = "";
  // For bytes of an object: those from `from` to before `end`, of the object that has this ETag.
  const absl::FunctionRef<absl::Status(absl::string_view)>* take = nullptr;
  uint64_t from = 0;
  uint64_t end = 0;  // 0: the object's
  std::string etag = {};

  // As in the header; empty: the whole object.
  std::string Range() const {
    if (end > 0) return absl::StrCat("bytes=", from, "-", end - 1);
    return from > 0 ? absl::StrCat("bytes=", from, "-") : "";
  }
  long ExpectedStatus() const { return from > 0 || end > 0 ? 206 : 200; }
};

struct S3Client::Attempt {
  absl::Status status;
  bool again = false;  // another attempt may succeed
  S3Answer answer = {};
  uint64_t taken = 0;  // bytes that were given to `take`
};

namespace {

// The answer while it comes.
struct Arriving {
  CURL* easy;
  const absl::FunctionRef<absl::Status(absl::string_view)>* take;
  long expected;  // the status with which the body goes to `take`
  uint64_t taken = 0;
  std::string body = {};
  absl::Status refused = {};

  static size_t OnBody(char* data, size_t size, size_t count, void* self) {
    auto& arriving = *static_cast<Arriving*>(self);
    const size_t bytes = size * count;
    long http_status = 0;
    curl_easy_getinfo(arriving.easy, CURLINFO_RESPONSE_CODE, &http_status);
    if (arriving.take == nullptr || http_status != arriving.expected) {
      if (arriving.body.size() + bytes > kAnswerBytesMax) return 0;
      arriving.body.append(data, bytes);
      return bytes;
    }
    arriving.refused = (*arriving.take)(absl::string_view(data, bytes));
    if (!arriving.refused.ok()) return 0;
    arriving.taken += bytes;
    return bytes;
  }
};

struct HeaderList {
  curl_slist* lines = nullptr;

  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() { curl_slist_free_all(lines); }
  void Add(const std::string& line) { lines = curl_slist_append(lines, line.c_str()); }
};

// Not 0 ends the transfer.
int OnProgress(void* options, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const S3Options*>(options)->cancelled() ? 1 : 0;
}

std::string HeaderOf(CURL* easy, const char* name) {
  curl_header* header = nullptr;
  if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return "";
  return header->value;
}

}  // namespace

absl::StatusOr<S3Options> S3OptionsOf(absl::string_view bucket, absl::string_view region,
                                      absl::string_view endpoint) {
  S3Options options = {.environment = AwsEnvironment::OfProcess()};
  const AwsEnvironment& environment = options.environment;
  ASSIGN_OR_RETURN(options.place, S3PlaceOf(bucket, region.empty() ? environment.region : region,
                                            endpoint.empty() ? environment.s3_endpoint : endpoint));
  return options;
}

S3Client::S3Client(S3Options options)
    : options_(std::move(options)),
      easy_((StartCurl(), curl_easy_init())),
      identity_(options_.environment),
      fetch_at_(identity_.fetches() ? absl::InfinitePast() : absl::InfiniteFuture()) {
  CHECK(easy_ != nullptr);
}

S3Client::~S3Client() { curl_easy_cleanup(easy_); }

bool S3Client::Cancelled() const { return options_.cancelled != nullptr && options_.cancelled(); }

bool S3Client::WaitAfter(int attempts) const {
  if (attempts >= kS3AttemptsMax || Cancelled()) return false;
  options_.wait(BackoffCap(kBetweenAttempts, static_cast<uint32_t>(attempts)));
  return !Cancelled();
}

// The handle keeps its connection for the next request.
S3Client::Attempt S3Client::Transfer(const Call& call, const std::vector<std::string>& lines,
                                     const std::string& url) {
  curl_easy_reset(easy_);
  SetCommonCurlOptions(easy_, "http,https");
  HeaderList headers;
  for (const std::string& line : lines) headers.Add(line);
  if (*call.content_type == '\0') headers.Add("Content-Type:");
  char error[CURL_ERROR_SIZE] = "";
  Arriving arriving{.easy = easy_, .take = call.take, .expected = call.ExpectedStatus()};
  curl_easy_setopt(easy_, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy_, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(kConnectTimeout)));
  curl_easy_setopt(easy_, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy_, CURLOPT_LOW_SPEED_TIME,
                   static_cast<long>(absl::ToInt64Seconds(options_.silence_max)));
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers.lines);
  if (absl::string_view(call.method) == "PUT" || absl::string_view(call.method) == "POST") {
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS,
                     call.body.data() == nullptr ? "" : call.body.data());
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
  }
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, call.method);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &Arriving::OnBody);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &arriving);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error);
  if (options_.cancelled != nullptr) {
    curl_easy_setopt(easy_, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy_, CURLOPT_XFERINFOFUNCTION, &OnProgress);
    curl_easy_setopt(easy_, CURLOPT_XFERINFODATA, &options_);
  }
  const CURLcode code = curl_easy_perform(easy_);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, nullptr);
  Attempt attempt;
  attempt.taken = arriving.taken;
  attempt.answer.etag = HeaderOf(easy_, "ETag");
  if (!arriving.refused.ok()) {
    attempt.status = arriving.refused;
    return attempt;
  }
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    attempt.status = absl::CancelledError("S3: the call was cancelled");
    return attempt;
  }
  if (code != CURLE_OK) {
    attempt.status = absl::UnavailableError(absl::StrCat(
        "cannot reach ", url.substr(0, url.find('/', 8)), ": ",
        CleanText(error[0] != '\0' ? error : curl_easy_strerror(code), kReasonBytesMax)));
    attempt.again = !IsFinal(code);
    return attempt;
  }
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &attempt.answer.http_status);
  attempt.answer.body = std::move(arriving.body);
  return attempt;
}

absl::StatusOr<StsCredentials> S3Client::FetchCredentials() {
  ASSIGN_OR_RETURN(const StsRequest request, MakeStsRequest(options_.environment));
  const Call call = {
      .method = "POST", .body = request.body, .content_type = "application/x-www-form-urlencoded"};
  const Attempt attempt =
      Transfer(call, {absl::StrCat("Content-Type: ", call.content_type)}, request.url);
  if (attempt.status.ok()) return ReadStsAnswer(attempt.answer.http_status, attempt.answer.body);
  return absl::UnavailableError(absl::StrCat("STS: ", attempt.status.message()));
}

absl::StatusOr<std::shared_ptr<const AwsCredentials>> S3Client::Credentials() {
  bool again = false;
  if (fetch_at_ <= absl::Now()) {
    const absl::StatusOr<StsCredentials> fetched = FetchCredentials();
    again = absl::IsUnavailable(fetched.status());
    fetch_at_ = absl::Now() + identity_.OnFetched(fetched, absl::Now());
  }
  auto current = identity_.Current(absl::Now());
  if (current.ok()) return current;
  if (again) fetch_at_ = absl::InfinitePast();  // with the next attempt
  return absl::Status(
      again ? absl::StatusCode::kUnavailable : absl::StatusCode::kFailedPrecondition,
      absl::StrCat("no credentials for S3: ", current.status().message()));
}

S3Client::Attempt S3Client::SendOnce(const Call& call) {
  const auto credentials = Credentials();
  if (!credentials.ok()) {
    return {.status = credentials.status(), .again = absl::IsUnavailable(credentials.status())};
  }
  const S3Place& place = options_.place;
  const std::string path = absl::StrCat(place.path, "/", AwsEncode(call.key, "/"));
  const std::string query = QueryOf(call.query);
  const std::string hash = AwsPayloadHash(call.body);
  const std::string host = AwsHostOf(place.origin);
  const std::string md5 = call.body.empty() ? "" : Md5Of(call.body);
  const std::string range = call.Range();
  const std::vector<std::string> lines =
      signer_.HeaderLines({.method = call.method,
                           .path = path,
                           .query = query,
                           .headers = {{"Content-MD5", md5},
                                       {"Content-Type", call.content_type},
                                       {"Host", host},
                                       {"If-Match", call.etag},
                                       {"Range", range},
                                       {"X-Amz-Content-Sha256", hash}},
                           .payload_hash = hash,
                           .region = place.region,
                           .service = "s3"},
                          **credentials, absl::Now());
  Attempt attempt =
      Transfer(call, lines, absl::StrCat(place.origin, path, query.empty() ? "" : "?", query));
  if (!attempt.status.ok()) return attempt;
  attempt.status = StatusOf(attempt.answer);
  attempt.again = absl::IsUnavailable(attempt.status);
  return attempt;
}

absl::StatusOr<S3Answer> S3Client::Send(const Call& call) {
  for (int attempts = 1;; ++attempts) {
    Attempt attempt = SendOnce(call);
    if (attempt.status.ok()) return std::move(attempt.answer);
    if (!attempt.again || !WaitAfter(attempts)) return attempt.status;
  }
}

absl::Status S3Client::Put(const std::string& key, absl::string_view bytes) {
  return Send({.method = "PUT",
               .key = key,
               .body = bytes,
               .content_type = "application/octet-stream"})
      .status();
}

absl::Status S3Client::Get(const std::string& key,
                           absl::FunctionRef<absl::Status(absl::string_view)> take) {
  return Fetch({.method = "GET", .key = key, .take = &take});
}

absl::StatusOr<std::string> S3Client::GetRange(const std::string& key, uint64_t from,
                                               uint64_t bytes) {
  std::string got;
  const auto take = [&got, bytes](absl::string_view more) {
    if (more.size() > bytes - got.size())
      return absl::UnavailableError("S3: more bytes than were asked for");
    got.append(more.data(), more.size());
    return absl::OkStatus();
  };
  const absl::FunctionRef<absl::Status(absl::string_view)> taken = take;
  const absl::Status status =
      Fetch({.method = "GET", .key = key, .take = &taken, .from = from, .end = from + bytes});
  if (!status.ok() && !absl::StrContains(status.message(), "InvalidRange")) return status;
  if (got.size() == bytes) return got;
  return absl::DataLossError(
      absl::StrCat("S3: an object ends before byte ", from + bytes, ": ", key));
}

absl::Status S3Client::Fetch(Call call) {
  int attempts = 0;
  while (true) {
    const Attempt attempt = SendOnce(call);
    if (attempt.status.ok()) {
      const long expected = call.ExpectedStatus();
      if (attempt.answer.http_status == expected) return absl::OkStatus();
      return absl::UnavailableError(
          absl::StrCat("S3: HTTP ", attempt.answer.http_status, " instead of ", expected));
    }
    attempts = attempt.taken > 0 ? 1 : attempts + 1;
    if (!attempt.again || !WaitAfter(attempts)) return attempt.status;
    call.from += attempt.taken;
    if (call.end > 0 && call.from == call.end) return absl::OkStatus();
    if (attempt.taken > 0) call.etag = attempt.answer.etag;
  }
}

absl::Status S3Client::Delete(const std::string& key) {
  const absl::Status status = Send({.method = "DELETE", .key = key}).status();
  return absl::IsNotFound(status) && absl::StrContains(status.message(), "NoSuchKey")
             ? absl::OkStatus()
             : status;
}

template <typename T>
absl::StatusOr<std::vector<T>> S3Client::ListPages(
    const Parameters& query, absl::StatusOr<S3Page<T>> (*read)(absl::string_view)) {
  std::vector<T> found;
  Parameters place;
  while (true) {
    Call call = {.method = "GET", .query = query};
    call.query.insert(call.query.end(), place.begin(), place.end());
    ASSIGN_OR_RETURN(const S3Answer answer, Send(call));
    ASSIGN_OR_RETURN(S3Page<T> page, read(answer.body));
    found.insert(found.end(), std::make_move_iterator(page.found.begin()),
                 std::make_move_iterator(page.found.end()));
    if (page.next.empty()) return found;
    if (page.next == place) return absl::UnavailableError("S3: the list repeats a page");
    place = std::move(page.next);
  }
}

absl::StatusOr<std::vector<S3Object>> S3Client::List(const std::string& prefix) {
  return ListPages<S3Object>({{"list-type", "2"}, {"prefix", prefix}}, &ReadObjects);
}

absl::StatusOr<std::vector<S3Upload>> S3Client::ListUploads(const std::string& prefix) {
  return ListPages<S3Upload>({{"uploads", ""}, {"prefix", prefix}}, &ReadUploads);
}

absl::StatusOr<S3Upload> S3Client::BeginUpload(const std::string& key) {
  ASSIGN_OR_RETURN(const S3Answer answer, Send({.method = "POST",
                                                .key = key,
                                                .query = {{"uploads", ""}},
                                                .content_type = "application/octet-stream"}));
  ASSIGN_OR_RETURN(std::string id, ReadUploadId(answer.body));
  return S3Upload{.key = key, .id = std::move(id)};
}

absl::StatusOr<std::string> S3Client::PutPart(const S3Upload& upload, size_t number,
                                              absl::string_view bytes) {
  ASSIGN_OR_RETURN(S3Answer answer,
                   Send({.method = "PUT",
                         .key = upload.key,
                         .query = {{"partNumber", absl::StrCat(number)}, {"uploadId", upload.id}},
                         .body = bytes}));
  if (answer.etag.empty()) return absl::UnavailableError("S3: the answer for a part has no ETag");
  return std::move(answer.etag);
}

absl::Status S3Client::CompleteUpload(const S3Upload& upload, const std::vector<std::string>& etags,
                                      uint64_t bytes) {
  const std::string body = CompleteUploadBody(etags);
  const absl::Status status = Send({.method = "POST",
                                    .key = upload.key,
                                    .query = {{"uploadId", upload.id}},
                                    .body = body,
                                    .content_type = "application/xml"})
                                  .status();
  if (!absl::IsNotFound(status)) return status;
  // A former attempt whose answer was lost may have completed it.
  const absl::StatusOr<std::vector<S3Object>> there = List(upload.key);
  if (!there.ok()) return status;
  const bool complete = std::any_of(there->begin(), there->end(), [&](const S3Object& object) {
    return object.key == upload.key && object.bytes == bytes;
  });
  return complete ? absl::OkStatus() : status;
}

absl::Status S3Client::AbortUpload(const S3Upload& upload) {
  const absl::Status status =
      Send({.method = "DELETE", .key = upload.key, .query = {{"uploadId", upload.id}}}).status();
  return absl::IsNotFound(status) && absl::StrContains(status.message(), "NoSuchUpload")
             ? absl::OkStatus()
             : status;
}

S3Writer::S3Writer(S3Client& client, std::string key) : client_(client), key_(std::move(key)) {
  part_.reserve(client_.options().part_bytes);  // it would grow to twice the size otherwise
}

S3Writer::~S3Writer() {
  // If this fails, the parts stay: ListUploads finds them.
  if (!upload_.id.empty()) client_.AbortUpload(upload_).IgnoreError();
}

absl::Status S3Writer::Add(absl::string_view bytes) {
  const size_t part_bytes = client_.options().part_bytes;
  while (!bytes.empty()) {
    if (part_.size() == part_bytes) RETURN_IF_ERROR(PutPart());
    const size_t more = std::min(bytes.size(), part_bytes - part_.size());
    part_.append(bytes.data(), more);
    bytes.remove_prefix(more);
  }
  return absl::OkStatus();
}

absl::Status S3Writer::PutPart() {
  if (etags_.size() == kS3PartsMax) {
    return absl::OutOfRangeError(absl::StrCat(key_, " has more than ", kS3PartsMax, " parts of ",
                                              client_.options().part_bytes, " bytes"));
  }
  if (upload_.id.empty()) {
    ASSIGN_OR_RETURN(upload_, client_.BeginUpload(key_));
  }
  ASSIGN_OR_RETURN(std::string etag, client_.PutPart(upload_, etags_.size() + 1, part_));
  etags_.push_back(std::move(etag));
  bytes_ += part_.size();
  part_.clear();
  return absl::OkStatus();
}

absl::Status S3Writer::Finish() {
  if (upload_.id.empty()) return client_.Put(key_, part_);
  RETURN_IF_ERROR(PutPart());
  RETURN_IF_ERROR(client_.CompleteUpload(upload_, etags_, bytes_));
  upload_.id.clear();
  return absl::OkStatus();
}

}  // namespace escapement
