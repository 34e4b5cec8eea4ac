#include "services/handler/delivery/http/connection.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace escapement::handler {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr size_t kReadBytes = 16 << 10;
constexpr unsigned kHeaderBytesMax = 64 << 10;
// The largest header section, chunk line or trailer that the parser may leave unfinished.
constexpr size_t kUnparsedBytesMax = kHeaderBytesMax + kReadBytes;
// One Read receives at most this often, so that a fast consumer does not delay others. epoll
// reports the rest again.
constexpr int kReadsMax = 32;
constexpr int kInformationalMax = 16;  // answers with status 100 to 199 to one request
constexpr absl::string_view kHttpBegin = "HTTP/";

std::string ErrorText(int error) {
  char text[128];
  return strerror_r(error, text, sizeof(text));
}

// Lets Beast's parser write into an HttpBody.
struct HeadOfBody {
  using value_type = HttpBody;
  class reader {
   public:
    template <bool kIsRequest, typename Fields>
    reader(http::header<kIsRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, beast::error_code& error) { error = {}; }
    template <typename Buffers>
    size_t put(const Buffers& buffers, beast::error_code& error) {
      size_t bytes = 0;
      for (const boost::asio::const_buffer buffer : beast::buffers_range_ref(buffers)) {
        body_.Add({static_cast<const char*>(buffer.data()), buffer.size()});
        bytes += buffer.size();
      }
      error = {};
      return bytes;
    }
    void finish(beast::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

// Seconds, or a date (RFC 9110, 10.2.3).
absl::Duration RetryAfter(absl::string_view value) {
  int64_t seconds = 0;
  if (absl::SimpleAtoi(value, &seconds)) return absl::Seconds(seconds);
  const time_t at = curl_getdate(std::string(value).c_str(), nullptr);
  return at < 0 ? absl::ZeroDuration() : absl::Seconds(at - std::time(nullptr));
}

constexpr size_t kStatusBytes = absl::string_view("HTTP/1.1 200").size();

struct HeaderSection {
  size_t bytes = 0;    // including the empty line; 0: not complete yet
  bool strict = true;  // StrictHeader is not needed
};

// Measures the header section at the front.
HeaderSection FindHeader(absl::string_view bytes) {
  HeaderSection header;
  for (size_t begin = 0;;) {
    const size_t end = bytes.find('\n', begin);
    if (end == absl::string_view::npos) return {};
    absl::string_view line = bytes.substr(begin, end - begin);
    const bool with_cr = absl::ConsumeSuffix(&line, "\r");
    const bool blank_missing = begin == 0 && line.size() == kStatusBytes;
    header.strict = header.strict && with_cr && !blank_missing;
    if (begin > 0 && line.empty()) {
      header.bytes = end + 1;
      return header;
    }
    begin = end + 1;
  }
}

// Makes a header section strict. Some servers omit the blank after the status (RFC 9112, 4 requires
// it) or end lines with LF alone (2.2: a recipient may accept that). libcurl accepts both.
std::string StrictHeader(absl::string_view header) {
  std::string strict;
  strict.reserve(header.size() + 16);
  while (!header.empty()) {
    const size_t end = header.find('\n');
    absl::string_view line = header.substr(0, end);
    header.remove_prefix(end + 1);
    absl::ConsumeSuffix(&line, "\r");
    const bool blank_missing = strict.empty() && line.size() == kStatusBytes;
    absl::StrAppend(&strict, line, blank_missing ? " \r\n" : "\r\n");
  }
  return strict;
}

absl::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

class HttpConnection::Parser : public http::response_parser<HeadOfBody> {
 public:
  Parser() {
    eager(true);
    header_limit(kHeaderBytesMax);
    body_limit(boost::none);  // the body is not kept
  }
};

HttpConnection::HttpConnection(int fd, size_t body_bytes_max)
    : fd_(fd), body_bytes_max_(body_bytes_max), parser_(std::make_unique<Parser>()) {}

HttpConnection::~HttpConnection() { close(fd_); }

HttpConnection::Progress HttpConnection::Begin(absl::string_view head, absl::string_view body) {
  head_ = head;
  body_ = body;
  written_ = 0;
  parser_ = std::make_unique<Parser>();
  header_whole_ = false;
  informational_ = 0;
  unparsed_.clear();
  heard_ = false;
  reusable_ = false;
  why_.clear();
  return Write();
}

HttpConnection::Progress HttpConnection::Write() {
  while (writing()) {
    std::array<iovec, 2> parts;
    size_t count = 0;
    const auto add = [&](absl::string_view bytes, size_t from) {
      if (from < bytes.size())
        parts[count++] = {const_cast<char*>(bytes.data()) + from, bytes.size() - from};
    };
    add(head_, written_);
    add(body_, written_ - std::min(written_, head_.size()));
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Progress::kGoesOn;
      // The answer may have arrived before the peer has read the whole request.
      const int error = errno;
      const Progress read = Read();
      return read == Progress::kGoesOn ? Broken(ErrorText(error)) : read;
    }
    written_ += static_cast<size_t>(sent);
  }
  return Progress::kGoesOn;
}

HttpConnection::Progress HttpConnection::Read() {
  for (int reads = 0; reads < kReadsMax; ++reads) {
    char bytes[kReadBytes];
    const ssize_t received = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (received < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Progress::kGoesOn;
      return Broken(ErrorText(errno));
    }
    if (received == 0) return Ended();
    heard_ = true;
    unparsed_.append(bytes, static_cast<size_t>(received));
    const Progress progress = Parse();
    // A short read means that no more bytes are there.
    if (progress != Progress::kGoesOn || static_cast<size_t>(received) < sizeof(bytes))
      return progress;
  }
  return Progress::kGoesOn;
}

HttpConnection::Progress HttpConnection::Parse() {
  size_t parsed = 0;
  while (true) {
    if (!header_whole_) {
      const absl::string_view rest = absl::string_view(unparsed_).substr(parsed);
      const HeaderSection header = FindHeader(rest);
      // The parser refuses text that is not HTTP.
      const bool http = absl::StartsWith(rest, kHttpBegin) || absl::StartsWith(kHttpBegin, rest);
      if (header.bytes == 0 && http && rest.size() <= kHeaderBytesMax) break;
      if (!header.strict)
        unparsed_.replace(parsed, header.bytes, StrictHeader(rest.substr(0, header.bytes)));
      header_whole_ = true;
    }
    beast::error_code error;
    parsed += parser_->put(
        boost::asio::const_buffer(unparsed_.data() + parsed, unparsed_.size() - parsed), error);
    if (error && error != http::error::need_more)
      return Broken(absl::StrCat("no HTTP answer: ", error.message()));
    if (parser_->is_done()) {
      // A status of 100 to 199 is not the final answer (RFC 9110, 15.2). We never ask for 101.
      const unsigned status = parser_->get().result_int();
      if (status < 200 && status != 101) {
        if (++informational_ > kInformationalMax)
          return Broken("no HTTP answer: it only says that one will come");
        parser_ = std::make_unique<Parser>();
        header_whole_ = false;
        if (parsed < unparsed_.size()) continue;
        break;
      }
      return Answered(parser_->keep_alive() && !writing() && parsed == unparsed_.size());
    }
    if (parser_->get().body().bytes > body_bytes_max_) return Answered(false);
    if (error || parsed == unparsed_.size()) break;
  }
  unparsed_.erase(0, parsed);
  if (unparsed_.size() > kUnparsedBytesMax)
    return Broken("no HTTP answer: a line of its body's form is too long");
  return Progress::kGoesOn;
}

HttpConnection::Progress HttpConnection::Ended() {
  if (parser_->got_some()) {
    beast::error_code error;
    parser_->put_eof(error);
    if (!error && parser_->is_done()) return Answered(false);
  }
  return Broken("the receiver closed the connection before its answer was complete");
}

HttpConnection::Progress HttpConnection::Answered(bool reusable) {
  reusable_ = reusable;
  return Progress::kAnswered;
}

HttpConnection::Progress HttpConnection::Broken(std::string why) {
  why_ = std::move(why);
  return Progress::kBroken;
}

HttpAnswer HttpConnection::TakeAnswer(bool with_outcome) {
  HttpAnswer answer;
  auto& message = parser_->get();
  answer.status = static_cast<int>(message.result_int());
  answer.body_head = std::move(message.body().head);
  if (with_outcome) {
    const auto [first, last] = message.equal_range(kHttpOutcomeHeader);
    for (auto field = first; field != last; ++field)
      answer.outcome = std::string(View(field->value()));
  }
  if (SaysWhenToRetry(answer.status)) {
    if (const auto field = message.find(http::field::retry_after); field != message.end())
      answer.retry_after = RetryAfter(View(field->value()));
  }
  return answer;
}

}  // namespace escapement::handler
