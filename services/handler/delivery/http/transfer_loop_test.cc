#include "services/handler/delivery/http/transfer_loop.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace transfer_loop_test {

using fixtures::HttpReceiver;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Ended {
  int id = 0;
  TransferEnd end;
  long status = 0;      // HTTP status
  bool started = true;  // false: OnEnd had no handle
  absl::Time at;
};

// The ends of all transfers, in their order.
class Ends {
 public:
  void Add(Ended ended) {
    absl::MutexLock lock(&mutex_);
    ended_.push_back(std::move(ended));
  }
  // Waits for at least this many. Returns all.
  std::vector<Ended> Await(size_t count) {
    const auto enough = [this, count]()
                            ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return ended_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Minutes(1)));
    return ended_;
  }
  Ended AwaitOne() {
    const std::vector<Ended> ended = Await(1);
    EXPECT_EQ(ended.size(), 1u);
    return ended.empty() ? Ended{} : ended[0];
  }

 private:
  absl::Mutex mutex_;
  std::vector<Ended> ended_ ABSL_GUARDED_BY(mutex_);
};

// A POST without a body.
class Post final : public Transfer {
 public:
  Post(std::string url, int id, std::shared_ptr<Ends> ends)
      : url_(std::move(url)), id_(id), ends_(std::move(ends)) {}

  std::function<void()> also_at_end;
  absl::Status prepared;

  absl::Status Prepare(CURL* easy) override {
    if (!prepared.ok()) return prepared;
    curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Post::Drop);
    return absl::OkStatus();
  }

  void OnEnd(CURL* easy, const TransferEnd& end) override {
    Ended ended{.id = id_, .end = end, .started = easy != nullptr, .at = absl::Now()};
    if (easy != nullptr) curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &ended.status);
    if (also_at_end) also_at_end();
    ends_->Add(std::move(ended));
  }

 private:
  static size_t Drop(char*, size_t size, size_t count, void*) { return size * count; }

  const std::string url_;
  const int id_;
  const std::shared_ptr<Ends> ends_;
};

class TransferLoopTest : public ::testing::Test {
 protected:
  TransferLoopTest() : receiver_(*HttpReceiver::Start({}, &receipts_)) {}

  static TransferLoop::Options Http() {
    TransferLoop::Options options;
    options.protocols = "http,https";
    options.addresses = std::make_shared<const AddressRule>(AddressRule::AllowingLoopback());
    return options;
  }

  std::unique_ptr<Post> To(const std::string& path, int id = 0) {
    return std::make_unique<Post>(receiver_->origin() + path, id, ends_);
  }
  std::string LocalhostOrigin() const {
    return absl::StrReplaceAll(receiver_->origin(), {{"127.0.0.1", "localhost"}});
  }

  fixtures::Receipts receipts_;
  std::unique_ptr<HttpReceiver> receiver_;
  std::shared_ptr<Ends> ends_ = std::make_shared<Ends>();
};

TEST_F(TransferLoopTest, EndHasTheAnswersOfTheServer) {
  TransferLoop loop(Http());
  loop.Start(To("/ok", 1), absl::Seconds(30));
  ends_->Await(1);
  loop.Start(To("/status/503", 2), absl::Seconds(30));
  const std::vector<Ended> ended = ends_->Await(2);
  for (const Ended& one : ended) {
    EXPECT_EQ(one.end.code, CURLE_OK);
    EXPECT_EQ(one.end.error, "");
    EXPECT_TRUE(one.started);
    EXPECT_FALSE(one.end.unsent);
  }
  EXPECT_EQ(ended[0].status / 100, 2);
  EXPECT_EQ(ended[1].status, 503);
}

TEST_F(TransferLoopTest, BrokenConnectionIsAnErrorOfLibcurl) {
  TransferLoop loop(Http());
  loop.Start(To("/reset"), absl::Seconds(30));
  const Ended ended = ends_->AwaitOne();
  EXPECT_NE(ended.end.code, CURLE_OK);
  EXPECT_NE(ended.end.error, "");
  EXPECT_FALSE(ended.end.unsent);
  EXPECT_FALSE(ended.end.refused);
}

TEST_F(TransferLoopTest, ClosedPortIsNeitherRefusedNorUnsent) {
  const auto closed = fixtures::ListenOn("127.0.0.1", 0);
  ASSERT_TRUE(closed.ok());
  close(closed->fd);
  TransferLoop loop(Http());
  loop.Start(std::make_unique<Post>(absl::StrCat("http://127.0.0.1:", closed->port), 0, ends_),
             absl::Seconds(30));
  const Ended ended = ends_->AwaitOne();
  EXPECT_EQ(ended.end.code, CURLE_COULDNT_CONNECT);
  EXPECT_FALSE(ended.end.refused);
  EXPECT_FALSE(ended.end.unsent);
}

TEST_F(TransferLoopTest, OtherProtocolsAreRefused) {
  TransferLoop loop(Http());
  loop.Start(std::make_unique<Post>("file:///etc/hostname", 0, ends_), absl::Seconds(30));
  EXPECT_EQ(ends_->AwaitOne().end.code, CURLE_UNSUPPORTED_PROTOCOL);
}

TEST_F(TransferLoopTest, TransferTimesOutOnceAtItsDeadline) {
  TransferLoop loop(Http());
  const absl::Time begin = absl::Now();
  loop.Start(To("/hang", 1), absl::Milliseconds(200));
  // The end of a later transfer shows that the first one did not end twice.
  loop.Start(To("/hang", 2), absl::Milliseconds(400));
  const std::vector<Ended> ended = ends_->Await(2);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].id, 1);
  EXPECT_EQ(ended[1].id, 2);
  for (const Ended& one : ended) {
    EXPECT_EQ(one.end.code, CURLE_OPERATION_TIMEDOUT);
    EXPECT_FALSE(one.end.unsent);
    EXPECT_GE(one.at - begin, one.id * absl::Milliseconds(200) - absl::Milliseconds(2));
    EXPECT_LT(one.at - begin, one.id * absl::Milliseconds(200) + absl::Seconds(1));
  }
}

TEST_F(TransferLoopTest, VeryLongTimeoutIsNoError) {
  TransferLoop loop(Http());
  loop.Start(To("/ok"), absl::InfiniteDuration());
  EXPECT_EQ(ends_->AwaitOne().end.code, CURLE_OK);
}

TEST_F(TransferLoopTest, TransferWithoutTimeEndsAsUnsent) {
  TransferLoop loop(Http());
  loop.Start(To("/ok"), -absl::Seconds(1));
  EXPECT_TRUE(ends_->AwaitOne().end.unsent);
  EXPECT_EQ(receiver_->requests(), 0u);
}

TEST_F(TransferLoopTest, WaitingTransfersRunInTheirOrder) {
  TransferLoop::Options options = Http();
  options.transfers_max = 1;
  TransferLoop loop(options);
  for (int id = 0; id < 100; ++id) loop.Start(To("/ok", id), absl::Seconds(60 - id % 7));
  const std::vector<Ended> ended = ends_->Await(100);
  ASSERT_EQ(ended.size(), 100u);
  for (int id = 0; id < 100; ++id) EXPECT_EQ(ended[static_cast<size_t>(id)].id, id);
  EXPECT_EQ(receiver_->connections(), 1u);
}

TEST_F(TransferLoopTest, WaitingTransferIsUnsentAtHalfItsTimeout) {
  TransferLoop::Options options = Http();
  options.transfers_max = 1;
  TransferLoop loop(options);
  const absl::Time begin = absl::Now();
  loop.Start(To("/hang", 0), absl::Seconds(2));
  loop.Start(To("/ok", 1), absl::Seconds(100));
  loop.Start(To("/ok", 2), absl::Milliseconds(600));
  loop.Start(To("/ok", 3), absl::Milliseconds(400));
  const std::vector<Ended> ended = ends_->Await(4);
  ASSERT_EQ(ended.size(), 4u);
  // Each ends at its own time, whatever waits before it. The first one in line stays.
  std::vector<int> ids;
  for (const Ended& one : ended) ids.push_back(one.id);
  EXPECT_THAT(ids, ElementsAre(3, 2, 0, 1));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(ended[i].end.unsent);
    EXPECT_FALSE(ended[i].started);
    EXPECT_EQ(ended[i].end.code, CURLE_OPERATION_TIMEDOUT);
  }
  EXPECT_GE(ended[0].at - begin, absl::Milliseconds(200));
  EXPECT_GE(ended[1].at - begin, absl::Milliseconds(300));
  EXPECT_LT(ended[1].at - begin, absl::Seconds(2));
  EXPECT_EQ(ended[3].end.code, CURLE_OK);
}

TEST_F(TransferLoopTest, AddressThatIsNotAllowedIsRefused) {
  TransferLoop::Options options = Http();
  options.addresses = std::make_shared<const AddressRule>();
  TransferLoop loop(options);
  loop.Start(To("/ok", 1), absl::Seconds(30));
  ends_->Await(1);
  loop.Start(std::make_unique<Post>(LocalhostOrigin() + "/ok", 2, ends_), absl::Seconds(30));
  const std::vector<Ended> ended = ends_->Await(2);
  for (const Ended& one : ended) {
    EXPECT_TRUE(one.end.refused) << one.id;
    EXPECT_TRUE(one.end.unsent) << one.id;
    EXPECT_THAT(one.end.error, HasSubstr("not allowed")) << one.id;
  }
  EXPECT_EQ(receiver_->connections(), 0u);
}

// The fixed addresses stand for a name server that gives addresses of both kinds.
class PostToName final : public Transfer {
 public:
  PostToName(std::string url, const std::string& addresses, std::shared_ptr<Ends> ends)
      : post_(std::move(url), 0, std::move(ends)),
        resolve_(curl_slist_append(nullptr, addresses.c_str())) {}
  ~PostToName() override { curl_slist_free_all(resolve_); }
  absl::Status Prepare(CURL* easy) override {
    curl_easy_setopt(easy, CURLOPT_RESOLVE, resolve_);
    return post_.Prepare(easy);
  }
  void OnEnd(CURL* easy, const TransferEnd& end) override { post_.OnEnd(easy, end); }

 private:
  Post post_;
  curl_slist* const resolve_;
};

TEST_F(TransferLoopTest, AllowedAddressOfANameIsUsed) {
  TransferLoop::Options options = Http();
  options.addresses = std::make_shared<const AddressRule>(*AddressRule::Allowing({"127.0.0.1"}));
  TransferLoop loop(options);
  loop.Start(
      std::make_unique<PostToName>(
          absl::StrCat("http://both.test:", receiver_->port(), "/ok"),
          absl::StrCat("both.test:", receiver_->port(), ":10.0.0.1,127.0.0.1,10.0.0.2"), ends_),
      absl::Seconds(30));
  const Ended ended = ends_->AwaitOne();
  EXPECT_EQ(ended.end.code, CURLE_OK) << ended.end.error;
  EXPECT_FALSE(ended.end.refused);
  EXPECT_FALSE(ended.end.unsent);
}

TEST_F(TransferLoopTest, AllowedAddressThatFailsIsNoRefusal) {
  const auto closed = fixtures::ListenOn("127.0.0.1", 0);
  ASSERT_TRUE(closed.ok());
  close(closed->fd);
  TransferLoop loop(Http());
  loop.Start(std::make_unique<PostToName>(
                 absl::StrCat("http://both.test:", closed->port, "/ok"),
                 absl::StrCat("both.test:", closed->port, ":127.0.0.1,10.0.0.1"), ends_),
             absl::Seconds(30));
  const Ended ended = ends_->AwaitOne();
  EXPECT_NE(ended.end.code, CURLE_OK);
  EXPECT_FALSE(ended.end.refused);
}

TEST_F(TransferLoopTest, ErrorOfPrepareEndsTheTransfer) {
  TransferLoop loop(Http());
  auto transfer = To("/ok", 1);
  transfer->prepared = absl::InvalidArgumentError("no such queue");
  loop.Start(std::move(transfer), absl::Seconds(30));
  const Ended ended = ends_->AwaitOne();
  EXPECT_EQ(ended.end.code, CURLE_FAILED_INIT);
  EXPECT_EQ(ended.end.error, "no such queue");
  EXPECT_FALSE(ended.started);
  EXPECT_TRUE(ended.end.unsent);
  // Its handle serves the next one.
  loop.Start(To("/ok", 2), absl::Seconds(30));
  EXPECT_EQ(ends_->Await(2)[1].end.code, CURLE_OK);
}

// Options of one transfer do not reach the next one on the same handle.
class Put final : public Transfer {
 public:
  Put(std::string url, std::shared_ptr<Ends> ends) : post_(std::move(url), 0, std::move(ends)) {}
  absl::Status Prepare(CURL* easy) override {
    const absl::Status prepared = post_.Prepare(easy);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PUT");
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "text");
    return prepared;
  }
  void OnEnd(CURL* easy, const TransferEnd& end) override { post_.OnEnd(easy, end); }

 private:
  Post post_;
};

TEST_F(TransferLoopTest, HandleForgetsTheOptionsOfItsLastTransfer) {
  fixtures::Receipts receipts;
  const auto receiver = *HttpReceiver::Start({.kept_requests_max = 2}, &receipts);
  TransferLoop loop(Http());
  loop.Start(std::make_unique<Put>(receiver->origin() + "/ok", ends_), absl::Seconds(30));
  ends_->Await(1);
  loop.Start(std::make_unique<Post>(receiver->origin() + "/ok", 1, ends_), absl::Seconds(30));
  ends_->Await(2);
  const auto kept = receiver->KeptRequests();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_THAT(kept[0].first, ::testing::StartsWith("PUT "));
  EXPECT_EQ(kept[0].second, "text");
  EXPECT_THAT(kept[1].first, ::testing::StartsWith("POST "));
  EXPECT_EQ(kept[1].second, "");
}

TEST_F(TransferLoopTest, OnEndMayStartTheNextTransfer) {
  TransferLoop loop(Http());
  auto first = To("/ok", 1);
  first->also_at_end = [this, &loop] { loop.Start(To("/ok", 2), absl::Seconds(30)); };
  loop.Start(std::move(first), absl::Seconds(30));
  const std::vector<Ended> ended = ends_->Await(2);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[1].id, 2);
  EXPECT_EQ(ended[1].end.code, CURLE_OK);
}

TEST_F(TransferLoopTest, DestructorEndsRunningAndWaitingTransfers) {
  TransferLoop::Options options = Http();
  options.transfers_max = 2;
  auto loop = std::make_unique<TransferLoop>(options);
  for (int id = 0; id < 10; ++id) {
    auto transfer = To("/hang", id);
    // A transfer that starts while the loop ends gets its end, too.
    transfer->also_at_end = [this, id, at = loop.get()] {
      at->Start(To("/ok", 100 + id), absl::Seconds(30));
    };
    loop->Start(std::move(transfer), absl::Seconds(30));
  }
  receiver_->AwaitRequests(2);
  EXPECT_THAT(ends_->Await(0), IsEmpty());
  loop.reset();
  const std::vector<Ended> ended = ends_->Await(0);
  ASSERT_EQ(ended.size(), 20u);
  std::vector<int> count(200);
  int unsent = 0;
  for (const Ended& one : ended) {
    EXPECT_EQ(one.end.code, CURLE_ABORTED_BY_CALLBACK);
    EXPECT_EQ(++count[static_cast<size_t>(one.id)], 1);
    if (one.end.unsent) ++unsent;
  }
  EXPECT_EQ(unsent, 18);
}

TEST_F(TransferLoopTest, FiveThousandTransfersEndOnceOnFewConnections) {
  constexpr int kCount = 5'000;
  TransferLoop::Options options = Http();
  options.transfers_max = 16;
  TransferLoop loop(options);
  const absl::Time begin = absl::Now();
  for (int id = 0; id < kCount; ++id) loop.Start(To("/ok", id), absl::Seconds(60 + id % 60));
  const std::vector<Ended> ended = ends_->Await(kCount);
  ASSERT_EQ(ended.size(), static_cast<size_t>(kCount));
  std::vector<int> count(kCount);
  for (const Ended& one : ended) {
    ASSERT_EQ(one.end.code, CURLE_OK) << one.end.error;
    ASSERT_EQ(++count[static_cast<size_t>(one.id)], 1);
  }
  EXPECT_LE(receiver_->connections(), 16u);
  RecordProperty("millis", static_cast<int>(absl::ToInt64Milliseconds(absl::Now() - begin)));
}

TEST_F(TransferLoopTest, TenThousandWaitingTransfersExpireQuickly) {
  constexpr size_t kCount = 10'000;
  TransferLoop::Options options = Http();
  options.transfers_max = 1;
  TransferLoop loop(options);
  loop.Start(To("/hang"), absl::Seconds(50));
  receiver_->AwaitRequests(1);
  // Each has another deadline, so that each ends in a turn of the loop of its own.
  const absl::Time begin = absl::Now();
  for (size_t i = 0; i < kCount; ++i)
    loop.Start(To("/ok", 1), absl::Milliseconds(100) + absl::Microseconds(i * 10));
  const std::vector<Ended> ended = ends_->Await(kCount);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  for (const Ended& one : ended) ASSERT_TRUE(one.end.unsent);
}

}  // namespace transfer_loop_test
}  // namespace escapement::handler
