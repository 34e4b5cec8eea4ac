#include "tests/e2e/chaos/attempt_port.h"

#include <sys/socket.h>
#include <unistd.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::chaos {
namespace attempt_port_test {

constexpr char kRequest[] =
    "POST /events HTTP/1.1\r\nHost: x\r\nce-id: id\r\nce-source: /tenants/default/schedules/s\r\n"
    "ce-subject: 20260301T000010-0-UTC/3\r\nce-time: 2026-03-01T00:00:10Z\r\n"
    "Escapement-Launch-Time: 2026-03-01T00:00:10.5Z\r\nEscapement-Count: 7\r\n"
    "Escapement-Attempt: 2\r\nEscapement-Index: 3\r\nEscapement-Token: t\r\n"
    "Content-Length: 4\r\n\r\nbody";

class AttemptPortTest : public testing::Test {
 protected:
  // Opens a connection to the port.
  int Connect() {
    const absl::StatusOr<int> fd = fixtures::ConnectTo(port_->address());
    EXPECT_TRUE(fd.ok()) << fd.status();
    return fd.value_or(-1);
  }
  static void Send(int fd) { send(fd, kRequest, sizeof(kRequest) - 1, MSG_NOSIGNAL); }
  static std::string Receive(int fd) {
    char buffer[1024];
    const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    return got <= 0 ? "" : std::string(buffer, static_cast<size_t>(got));
  }
  // Waits until this many attempts have arrived; returns the last.
  Attempt Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return attempts_.size() >= count;
    };
    mutex_.Await(absl::Condition(&enough));
    return attempts_[count - 1];
  }

  absl::Mutex mutex_;
  std::vector<Attempt> attempts_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<AttemptPort> port_ = AttemptPort::Start([this](Attempt attempt) {
                                         absl::MutexLock lock(&mutex_);
                                         attempts_.push_back(std::move(attempt));
                                       }).value();
};

TEST_F(AttemptPortTest, AnAttemptIsToldOfWithItsTrueTimeAndAllThatItsHeadersSay) {
  const int fd = Connect();
  const absl::Time before = absl::Now() - absl::Microseconds(1);
  Send(fd);
  const Attempt attempt = Await(1);
  EXPECT_GE(attempt.time, before);
  EXPECT_LE(attempt.time, absl::Now());
  EXPECT_EQ(attempt.event_id, "id");
  EXPECT_EQ(attempt.source, "/tenants/default/schedules/s");
  EXPECT_EQ(attempt.occurrence, "20260301T000010-0-UTC");
  EXPECT_EQ(attempt.index, 3u);
  EXPECT_EQ(attempt.run_count, 7u);
  EXPECT_EQ(attempt.attempt, 2u);
  EXPECT_EQ(attempt.token, "t");
  EXPECT_EQ(attempt.body, "body");
  EXPECT_EQ(attempt.nominal, absl::FromUnixMicros(1'772'323'210'000'000));
  EXPECT_EQ(attempt.launch, absl::FromUnixMicros(1'772'323'210'500'000));
  port_->Answer(attempt.number, 200, "Escapement-Outcome: succeeded\r\n");
  const std::string answer = Receive(fd);
  EXPECT_TRUE(absl::StartsWith(answer, "HTTP/1.1 200 ")) << answer;
  EXPECT_TRUE(absl::StrContains(answer, "Escapement-Outcome: succeeded\r\n"));
  EXPECT_LT(port_->Fates()[0].answered, absl::InfiniteFuture());
  EXPECT_FALSE(port_->Fates()[0].read);
  close(fd);
}

TEST_F(AttemptPortTest, AnAnswerIsReadIfItsConnectionBringsAnotherRequest) {
  const int fd = Connect();
  Send(fd);
  port_->Answer(Await(1).number, 500, "");
  EXPECT_TRUE(absl::StartsWith(Receive(fd), "HTTP/1.1 500 "));
  Send(fd);
  Await(2);
  EXPECT_TRUE(port_->Fates()[0].read);
  EXPECT_FALSE(port_->Fates()[1].read);
  close(fd);
}

TEST_F(AttemptPortTest, AConnectionThatEndsIsBrokenForItsLastAttemptOnly) {
  const int fd = Connect();
  Send(fd);
  port_->Answer(Await(1).number, 200, "");
  Receive(fd);
  Send(fd);
  const size_t last = Await(2).number;
  close(fd);
  // The port may see the end late. Each further attempt shows that it has worked on; at some point
  // it has seen the end, too.
  for (size_t i = 3; port_->Fates()[last].broken == absl::InfiniteFuture(); ++i) {
    const int other = Connect();
    Send(other);
    Await(i);
    close(other);
  }
  EXPECT_EQ(port_->Fates()[0].broken, absl::InfiniteFuture());
  EXPECT_EQ(port_->Fates()[last].answered, absl::InfiniteFuture());
  port_->Answer(last, 200, "");  // is dropped
}

}  // namespace attempt_port_test
}  // namespace escapement::chaos
