#include "common/auth/jwks_source.h"

#include <curl/curl.h>
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/auth/jwks.h"
#include "common/base/bounded_file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/curl_options.h"
#include "common/status/errors.h"

namespace escapement::auth {

namespace {

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct HandleDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Handle = std::unique_ptr<CURL, HandleDeleter>;

std::string PartOf(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return {};
  const std::string copy = text;
  curl_free(text);
  return copy;
}

// libcurl writes all forms of an IPv4 address as four numbers.
bool IsLoopback(const std::string& host) {
  if (host == "localhost" || host == "[::1]") return true;
  return absl::StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == std::string::npos;
}

size_t TakeBytes(char* bytes, size_t size, size_t count, void* to) {
  auto& body = *static_cast<std::string*>(to);
  if (body.size() + size * count > kJwksBytesMax) return 0;  // fails the transfer
  body.append(bytes, size * count);
  return size * count;
}

int IsStopping(void* stopping, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::atomic<bool>*>(stopping)->load() ? 1 : 0;
}

}  // namespace

absl::Status CheckIssuerUrl(const std::string& url) {
  const std::unique_ptr<CURLU, UrlDeleter> parsed(curl_url());
  const auto refused = [] {
    return absl::InvalidArgumentError(
        "must be an https URL, or an http URL of a loopback address, without user and fragment");
  };
  // libcurl reads up to the first NUL; others would read on.
  if (parsed == nullptr || url.size() > kIssuerUrlBytesMax || absl::StrContains(url, '\0') ||
      curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), CURLU_DISALLOW_USER) != CURLUE_OK) {
    return refused();
  }
  const std::string scheme = PartOf(parsed.get(), CURLUPART_SCHEME);
  if (!PartOf(parsed.get(), CURLUPART_FRAGMENT).empty() ||
      (scheme != "https" &&
       (scheme != "http" || !IsLoopback(PartOf(parsed.get(), CURLUPART_HOST))))) {
    return refused();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FetchFromIssuer(const IssuerRequest& request,
                                            const std::atomic<bool>& stopping) {
  RETURN_IF_ERROR(CheckIssuerUrl(request.url));
  StartCurl();
  const Handle handle(curl_easy_init());
  if (handle == nullptr) return absl::UnavailableError("libcurl does not start");
  std::string body;
  char words[CURL_ERROR_SIZE] = "";
  CURL* const easy = handle.get();
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  SetCommonCurlOptions(easy, "http,https");
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, absl::ToInt64Milliseconds(kIssuerFetchTimeout));
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!request.ca.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, request.ca.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  }
  if (!request.form.empty()) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.form.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.form.c_str());
  }
  if (!request.user_password.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_easy_setopt(easy, CURLOPT_USERPWD, request.user_password.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &TakeBytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
  curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(kJwksBytesMax));
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &IsStopping);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &stopping);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, words);
  const CURLcode code = curl_easy_perform(easy);
  if (code == CURLE_ABORTED_BY_CALLBACK) return absl::CancelledError("the process ends");
  if (code == CURLE_WRITE_ERROR || code == CURLE_FILESIZE_EXCEEDED)
    return absl::UnavailableError("the answer has more than 1 MiB");
  if (code != CURLE_OK)
    return absl::UnavailableError(words[0] != '\0' ? words : curl_easy_strerror(code));
  long http_status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &http_status);
  if (http_status != 200) {
    const bool refused = !request.form.empty() && (http_status == 400 || http_status == 401);
    return absl::Status(
        refused ? absl::StatusCode::kUnauthenticated : absl::StatusCode::kUnavailable,
        absl::StrCat("the answer has the status ", http_status));
  }
  return body;
}

namespace {

// Changes when somebody writes or replaces the file.
struct FileStamp {
  int64_t seconds = 0;
  int64_t nanoseconds = 0;
  uint64_t size = 0;
  uint64_t inode = 0;
  uint64_t device = 0;

  bool operator==(const FileStamp&) const = default;
};

// nullopt: the file is missing.
std::optional<FileStamp> StampOf(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileStamp{found.st_mtim.tv_sec, found.st_mtim.tv_nsec,
                   static_cast<uint64_t>(found.st_size), found.st_ino, found.st_dev};
}

// Logs when reading begins to succeed, or fails with another error; a repeated result is not
// logged.
class ReadLog {
 public:
  explicit ReadLog(std::string from) : from_(std::move(from)) {}

  void Note(const absl::StatusOr<Jwks>& read) {
    if (read.ok()) {
      if (logged_ && error_.empty()) return;
      Log(LogLevel::kInfo, "auth.jwks", "read the keys of an issuer",
          {{"from", from_}, {"keys", read->keys().size()}});
      error_.clear();
    } else {
      const std::string error = ErrorText(read.status().message());
      if (logged_ && error == error_) return;
      Log(LogLevel::kWarning, "auth.jwks", "cannot read the keys of an issuer; former ones stay",
          {{"from", from_}, {"error", error}});
      error_ = error;
    }
    logged_ = true;
  }

 private:
  const std::string from_;
  bool logged_ = false;
  std::string error_;
};

class JwksFileSource final : public JwksSource {
 public:
  JwksFileSource(const std::string& path, Clock& clock) : path_(path), clock_(clock), log_(path) {}

  std::shared_ptr<const Jwks> Current() override {
    absl::MutexLock lock(&mutex_);
    const absl::Duration now = clock_.Elapsed();
    if (looked_at_.has_value() && now - *looked_at_ < kJwksLookEvery) return keys_;
    looked_at_ = now;
    // Before the read: a change during the read is seen at the next look.
    const std::optional<FileStamp> stamp = StampOf(path_);
    if (stamp.has_value() && stamp == stamp_) return keys_;
    absl::StatusOr<Jwks> read = ReadJwksFile(path_);
    log_.Note(read);
    if (!read.ok()) return keys_;  // the next look tries again
    keys_ = std::make_shared<const Jwks>(*std::move(read));
    stamp_ = stamp;
    return keys_;
  }

 private:
  const std::string path_;
  Clock& clock_;
  absl::Mutex mutex_;
  std::optional<absl::Duration> looked_at_ ABSL_GUARDED_BY(mutex_);
  // The stamp before the last good read.
  std::optional<FileStamp> stamp_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Jwks> keys_ ABSL_GUARDED_BY(mutex_);
  ReadLog log_ ABSL_GUARDED_BY(mutex_);
};

class JwksUrlSource final : public JwksSource {
 public:
  JwksUrlSource(IssuerRequest request, IssuerFetcher fetch, Runtime& runtime)
      : request_(std::move(request)),
        fetch_(std::move(fetch)),
        clock_(runtime.clock()),
        log_(request_.url),
        executor_(runtime.NewExecutor("jwks")) {}

  ~JwksUrlSource() override {
    stopping_ = true;
    executor_->Stop();
  }

  void Start() override {
    absl::MutexLock lock(&mutex_);
    PostRead();
  }

  std::shared_ptr<const Jwks> Current() override {
    absl::MutexLock lock(&mutex_);
    return clock_.Elapsed() - read_at_ < kJwksUsableFor ? keys_ : nullptr;
  }

  bool NoteUnknownKey() override {
    absl::MutexLock lock(&mutex_);
    if (reading_) return true;
    if (clock_.Elapsed() - asked_at_ < kJwksRetryAfter) return false;
    PostRead();
    return true;
  }

 private:
  void PostRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    reading_ = true;
    asked_at_ = clock_.Elapsed();
    executor_->Post([this] { Read(); });
  }

  // On the executor.
  void Read() {
    executor_->Cancel(timer_);
    const absl::StatusOr<std::string> document = fetch_(request_, stopping_);
    absl::StatusOr<Jwks> read = document.ok() ? Jwks::Parse(*document) : document.status();
    if (stopping_) return;
    log_.Note(read);
    timer_ = executor_->PostAfter(read.ok() ? kJwksRefreshEvery : kJwksRetryAfter, [this] {
      absl::MutexLock lock(&mutex_);
      if (!reading_) PostRead();
    });
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (!read.ok()) return;
    keys_ = std::make_shared<const Jwks>(*std::move(read));
    read_at_ = clock_.Elapsed();
  }

  const IssuerRequest request_;
  const IssuerFetcher fetch_;
  Clock& clock_;
  std::atomic<bool> stopping_ = false;

  ReadLog log_;                  // on the executor
  Executor::TimerId timer_ = 0;  // on the executor

  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // also while the read waits for the executor
  absl::Duration asked_at_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  absl::Duration read_at_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Jwks> keys_ ABSL_GUARDED_BY(mutex_);

  const std::shared_ptr<Executor> executor_;
};

}  // namespace

absl::StatusOr<Jwks> ReadJwksFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string document, ReadBoundedFile(path, kJwksBytesMax));
  absl::StatusOr<Jwks> keys = Jwks::Parse(document);
  if (!keys.ok()) return Annotate(keys.status(), path);
  return keys;
}

std::unique_ptr<JwksSource> NewJwksFileSource(const std::string& path, Clock& clock) {
  return std::make_unique<JwksFileSource>(path, clock);
}

std::unique_ptr<JwksSource> NewJwksUrlSource(IssuerRequest request, IssuerFetcher fetch,
                                             Runtime& runtime) {
  return std::make_unique<JwksUrlSource>(std::move(request), std::move(fetch), runtime);
}

}  // namespace escapement::auth
