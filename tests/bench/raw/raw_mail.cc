#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {
namespace {

struct Unread {
  const std::string* mail;
  size_t used = 0;
};

size_t Read(char* buffer, size_t size, size_t count, void* data) {
  auto* unread = static_cast<Unread*>(data);
  const size_t bytes = std::min(size * count, unread->mail->size() - unread->used);
  memcpy(buffer, unread->mail->data() + unread->used, bytes);
  unread->used += bytes;
  return bytes;
}

std::string Mail(size_t text_bytes) {
  std::string mail =
      "From: jobs@example.com\r\nTo: ann@example.org\r\nSubject: raw\r\n"
      "Message-ID: <raw@example.com>\r\nce-id: 0123456789abcdef0123456789abcdef\r\n"
      "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n";
  for (size_t bytes = 0; bytes < text_bytes; bytes += 70)
    absl::StrAppend(&mail, std::string(std::min<size_t>(70, text_bytes - bytes), 'r'), "\r\n");
  return mail;
}

}  // namespace

double RawMail(const std::string& smtp_uri, uint64_t mails, size_t text_bytes, int connections) {
  const std::string mail = Mail(text_bytes);
  std::atomic<uint64_t> next = 0;
  std::atomic<bool> good = true;
  const auto send = [&] {
    const CurlHandle easy = NewCurlHandle();
    curl_slist* to = curl_slist_append(nullptr, "<ann@example.org>");
    Unread unread = {.mail = &mail};
    curl_easy_setopt(easy.get(), CURLOPT_URL, smtp_uri.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_MAIL_FROM, "<jobs@example.com>");
    curl_easy_setopt(easy.get(), CURLOPT_MAIL_RCPT, to);
    curl_easy_setopt(easy.get(), CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_READFUNCTION, &Read);
    curl_easy_setopt(easy.get(), CURLOPT_READDATA, &unread);
    while (next.fetch_add(1) < mails) {
      unread.used = 0;
      if (curl_easy_perform(easy.get()) != CURLE_OK) good = false;
    }
    curl_slist_free_all(to);
  };
  const absl::Time begin = absl::Now();
  std::vector<std::thread> threads;
  for (int i = 0; i < connections; ++i) threads.emplace_back(send);
  for (std::thread& thread : threads) thread.join();
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  return good ? static_cast<double>(mails) / seconds : 0;
}

}  // namespace escapement::bench
