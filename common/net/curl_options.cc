#include "common/net/curl_options.h"

#include <sys/socket.h>

#include "common/base/check.h"

namespace escapement {

void SetCommonOptions(CURL* easy, const char* protocols) {
  CHECK(curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, protocols) == CURLE_OK) << protocols;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
}

CURLM* NewCurlMulti() {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  CHECK(global == CURLE_OK) << curl_easy_strerror(global);
  return curl_multi_init();
}

curl_socket_t CheckedSocket::Open(void* self, curlsocktype, curl_sockaddr* address) {
  auto* const checked = static_cast<CheckedSocket*>(self);
  checked->refused = checked->addresses != nullptr && !checked->addresses->Allows(address->addr);
  if (checked->refused) return CURL_SOCKET_BAD;
  checked->allowed = true;
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

}  // namespace escapement
