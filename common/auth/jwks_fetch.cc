#include "common/auth/jwks_fetch.h"

#include <curl/curl.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/auth/jwks.h"

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

absl::Status CheckJwksUrl(const std::string& url) {
  const std::unique_ptr<CURLU, UrlDeleter> parsed(curl_url());
  const auto refused = [] {
    return absl::InvalidArgumentError(
        "must be an https URL, or an http URL of a loopback address, without user and fragment");
  };
  if (parsed == nullptr || url.size() > kJwksUrlBytesMax ||
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

absl::StatusOr<std::string> FetchJwks(const JwksRequest& request,
                                      const std::atomic<bool>& stopping) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (const absl::Status status = CheckJwksUrl(request.url); !status.ok()) return status;
  const Handle handle(global == CURLE_OK ? curl_easy_init() : nullptr);
  if (handle == nullptr) return absl::UnavailableError("libcurl does not start");
  std::string body;
  char words[CURL_ERROR_SIZE] = "";
  CURL* const easy = handle.get();
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, absl::ToInt64Milliseconds(kJwksFetchTimeout));
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!request.ca.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, request.ca.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
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
  if (http_status != 200)
    return absl::UnavailableError(absl::StrCat("the answer has the status ", http_status));
  return body;
}

}  // namespace escapement::auth
