#include "services/handler/delivery/http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace escapement::handler {
namespace connection_test {

using Progress = HttpConnection::Progress;

constexpr size_t kBodyMax = 6000;

// The test is the peer of the connection.
class HttpConnectionTest : public ::testing::Test {
 protected:
  HttpConnectionTest() : HttpConnectionTest(MakePair()) {}
  ~HttpConnectionTest() override { Hang(); }

  void Say(absl::string_view bytes) {
    ASSERT_EQ(send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void Hang() {
    if (peer_ >= 0) close(peer_);
    peer_ = -1;
  }
  std::string Hear() {
    std::string bytes(1 << 20, '\0');
    const ssize_t n = recv(peer_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return bytes;
  }
  // Sends a request, gives this answer, and returns the progress.
  Progress Ask(absl::string_view answer) {
    EXPECT_EQ(connection_.Begin("HEAD\r\n\r\n", "body"), Progress::kGoesOn);
    EXPECT_EQ(Hear(), "HEAD\r\n\r\nbody");
    Say(answer);
    return connection_.Read();
  }

  int peer_ = -1;
  HttpConnection connection_;

 private:
  struct Pair {
    int ours = -1;
    int peer = -1;
  };
  static Pair MakePair() {
    int ends[2] = {-1, -1};
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
    return {ends[0], ends[1]};
  }
  explicit HttpConnectionTest(Pair pair) : peer_(pair.peer), connection_(pair.ours, kBodyMax) {}
};

TEST_F(HttpConnectionTest, OneRequestFollowsAnother) {
  for (const int status : {200, 503, 204}) {
    ASSERT_EQ(Ask(absl::StrCat("HTTP/1.1 ", status, " X\r\n",
                               status == 204 ? "" : "Content-Length: 2\r\n", "\r\n",
                               status == 204 ? "" : "ok")),
              Progress::kAnswered);
    EXPECT_TRUE(connection_.reusable());
    const HttpAnswer answer = connection_.TakeAnswer(false);
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.body_head, status == 204 ? "" : "ok");
  }
}

TEST_F(HttpConnectionTest, AnswerMayArriveByteByByte) {
  ASSERT_EQ(Ask("H"), Progress::kGoesOn);
  EXPECT_TRUE(connection_.heard());
  const std::string rest =
      "TTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r";
  for (const char byte : rest) {
    Say(std::string(1, byte));
    ASSERT_EQ(connection_.Read(), Progress::kGoesOn);
  }
  Say("\n");
  ASSERT_EQ(connection_.Read(), Progress::kAnswered);
  EXPECT_TRUE(connection_.reusable());
  EXPECT_EQ(connection_.TakeAnswer(false).body_head, "abcde");
}

TEST_F(HttpConnectionTest, InformationalAnswersAreSkipped) {
  ASSERT_EQ(Ask("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
            Progress::kGoesOn);
  Say("HTTP/1.1 102 P\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
  ASSERT_EQ(connection_.Read(), Progress::kAnswered);
  EXPECT_TRUE(connection_.reusable());
  EXPECT_EQ(connection_.TakeAnswer(false).status, 201);
}

TEST_F(HttpConnectionTest, AnAnswerWithoutALengthEndsWithTheConnection) {
  ASSERT_EQ(Ask("HTTP/1.0 200 OK\r\n\r\nall of it"), Progress::kGoesOn);
  Hang();
  ASSERT_EQ(connection_.Read(), Progress::kAnswered);
  EXPECT_FALSE(connection_.reusable());
  EXPECT_EQ(connection_.TakeAnswer(false).body_head, "all of it");
}

TEST_F(HttpConnectionTest, ConnectionCloseIsNotReused) {
  ASSERT_EQ(Ask("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
            Progress::kAnswered);
  EXPECT_FALSE(connection_.reusable());
}

TEST_F(HttpConnectionTest, ConnectionWithSurplusBytesIsNotReused) {
  ASSERT_EQ(Ask("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n"),
            Progress::kAnswered);
  EXPECT_FALSE(connection_.reusable());
}

TEST_F(HttpConnectionTest, ALongBodyIsCut) {
  ASSERT_EQ(Ask("HTTP/1.1 500 X\r\nContent-Length: 9999999999999\r\n\r\n"), Progress::kGoesOn);
  Say(std::string(kBodyMax, 'x'));
  ASSERT_EQ(connection_.Read(), Progress::kGoesOn);
  Say("y");
  ASSERT_EQ(connection_.Read(), Progress::kAnswered);
  EXPECT_FALSE(connection_.reusable());
  const HttpAnswer answer = connection_.TakeAnswer(false);
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.body_head, std::string(kHttpBodyHeadBytesMax, 'x'));
}

// libcurl accepts these over https, so plain http must accept them too.
TEST_F(HttpConnectionTest, AnswersOfSmallServersAreAccepted) {
  for (const absl::string_view answer :
       {"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "HTTP/1.1 200\ncontent-length:2\n\nok",
        "HTTP/1.1 100\n\nHTTP/1.1 200\r\nCONTENT-LENGTH:  2 \r\n\r\nok",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\nok"}) {
    ASSERT_EQ(Ask(answer), Progress::kAnswered) << answer << ": " << connection_.why();
    EXPECT_TRUE(connection_.reusable()) << answer;
    EXPECT_EQ(connection_.TakeAnswer(false).status, 200) << answer;
  }
}

TEST_F(HttpConnectionTest, HeaderWithoutEndIsBoundedInMemory) {
  ASSERT_EQ(Ask("HTTP/1.1 200 OK\r\n"), Progress::kGoesOn);
  Progress progress = Progress::kGoesOn;
  for (int i = 0; i < 100 && progress == Progress::kGoesOn; ++i) {
    Say(absl::StrCat("X-Long: ", std::string(1000, 'x'), "\r\n"));
    progress = connection_.Read();
  }
  EXPECT_EQ(progress, Progress::kBroken);
}

// A chunk line or a trailer does not end.
TEST_F(HttpConnectionTest, EndlessChunkLineOrTrailerBreaksTheConnection) {
  for (const absl::string_view begin : {"5;x=", "0\r\nX-Trailer: "}) {
    Progress progress =
        Ask(absl::StrCat("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", begin));
    for (int i = 0; i < 200 && progress == Progress::kGoesOn; ++i) {
      Say(std::string(1000, 'x'));
      progress = connection_.Read();
    }
    EXPECT_EQ(progress, Progress::kBroken) << begin;
  }
}

TEST_F(HttpConnectionTest, TooManyInformationalAnswersBreakTheConnection) {
  Progress progress = Ask("HTTP/1.1 100 Continue\r\n\r\n");
  for (int i = 0; i < 100 && progress == Progress::kGoesOn; ++i) {
    Say("HTTP/1.1 102 Processing\r\n\r\n");
    progress = connection_.Read();
  }
  EXPECT_EQ(progress, Progress::kBroken);
}

TEST_F(HttpConnectionTest, TextThatIsNotHttpBreaksTheConnection) {
  ASSERT_EQ(Ask("SSH-2.0-OpenSSH\r\n\r\n"), Progress::kBroken);
  EXPECT_NE(connection_.why(), "");
}

TEST_F(HttpConnectionTest, EndOfAnIncompleteAnswerBreaksTheConnection) {
  ASSERT_EQ(Ask("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour"), Progress::kGoesOn);
  Hang();
  EXPECT_EQ(connection_.Read(), Progress::kBroken);
  EXPECT_TRUE(connection_.heard());
}

TEST_F(HttpConnectionTest, EndBeforeAnyAnswerByteIsDistinguished) {
  ASSERT_EQ(connection_.Begin("HEAD\r\n\r\n", ""), Progress::kGoesOn);
  Hang();
  EXPECT_EQ(connection_.Read(), Progress::kBroken);
  EXPECT_FALSE(connection_.heard());
}

TEST_F(HttpConnectionTest, LongRequestIsWrittenAsTheSocketHasRoom) {
  const std::string head(1 << 20, 'h');
  const std::string body(1 << 20, 'b');
  ASSERT_EQ(connection_.Begin(head, body), Progress::kGoesOn);
  ASSERT_TRUE(connection_.writing());
  std::string heard;
  while (heard.size() < head.size() + body.size()) {
    heard += Hear();
    ASSERT_EQ(connection_.Write(), Progress::kGoesOn);
  }
  EXPECT_FALSE(connection_.writing());
  EXPECT_EQ(heard, head + body);
}

TEST_F(HttpConnectionTest, AnswerBeforeTheEndOfTheRequestCounts) {
  const std::string body(4 << 20, 'b');
  ASSERT_EQ(connection_.Begin("HEAD\r\n\r\n", body), Progress::kGoesOn);
  Say("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
  ASSERT_EQ(connection_.Read(), Progress::kAnswered);
  EXPECT_FALSE(connection_.reusable());
  EXPECT_EQ(connection_.TakeAnswer(false).status, 413);
}

TEST_F(HttpConnectionTest, AnswerIsReadAfterAFailedWrite) {
  const std::string body(4 << 20, 'b');
  ASSERT_EQ(connection_.Begin("HEAD\r\n\r\n", body), Progress::kGoesOn);
  Say("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
  shutdown(peer_, SHUT_RD);
  ASSERT_EQ(connection_.Write(), Progress::kAnswered);
  EXPECT_EQ(connection_.TakeAnswer(false).status, 413);
}

TEST_F(HttpConnectionTest, RetryAfterIsSecondsOrADate) {
  const auto retry_after = [this](const std::string& value) {
    EXPECT_EQ(Ask(absl::StrCat("HTTP/1.1 503 X\r\nretry-after: ", value,
                               "\r\nContent-Length: 0\r\n\r\n")),
              Progress::kAnswered);
    return connection_.TakeAnswer(false).retry_after;
  };
  EXPECT_EQ(retry_after("17"), absl::Seconds(17));
  EXPECT_EQ(retry_after("soon"), absl::ZeroDuration());
  const std::string in_an_hour = absl::FormatTime(
      "%a, %d %b %Y %H:%M:%S GMT", absl::Now() + absl::Hours(1), absl::UTCTimeZone());
  EXPECT_GT(retry_after(in_an_hour), absl::Minutes(30));
  EXPECT_LE(retry_after(in_an_hour), absl::Hours(1));
}

TEST_F(HttpConnectionTest, LastOutcomeCountsOnlyIfWanted) {
  const std::string answer =
      "HTTP/1.1 200 X\r\nescapement-outcome: failed\r\nA: b\r\nEscapement-Outcome: succeeded\r\n"
      "Content-Length: 0\r\n\r\n";
  ASSERT_EQ(Ask(answer), Progress::kAnswered);
  EXPECT_EQ(connection_.TakeAnswer(true).outcome, "succeeded");
  ASSERT_EQ(Ask(answer), Progress::kAnswered);
  EXPECT_EQ(connection_.TakeAnswer(false).outcome, "");
}

}  // namespace connection_test
}  // namespace escapement::handler
