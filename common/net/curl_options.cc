#include "common/net/curl_options.h"

#include "common/base/check.h"

namespace escapement {

void StartCurl() {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  CHECK(global == CURLE_OK) << curl_easy_strerror(global);
}

void SetCommonCurlOptions(CURL* easy, const char* protocols) {
  CHECK(curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, protocols) == CURLE_OK) << protocols;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
}

}  // namespace escapement
