#include <arpa/inet.h>
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "escapement/v1/trigger_receiver_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

constexpr int kWindowOfHttp2 = 65'535;

// Counts what it receives and says nothing until the sender has done.
class Receiver final : public v1::TriggerReceiver::Service {
 public:
  // `window`: bytes that a sender may send on a stream before it is told of more room; from 64 KiB
  // on gRPC makes it larger by itself.
  explicit Receiver(int window) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, window);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, window >= kWindowOfHttp2);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  int port() const { return port_; }

  // False if it takes too long.
  bool AwaitReceived(int messages) {
    const auto received = [&]()
                              ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return received_ >= messages; };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&received), absl::Seconds(20));
  }

 private:
  grpc::Status Deliver(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::DeliveryResult, v1::Delivery>* stream) override {
    v1::Delivery delivery;
    while (stream->Read(&delivery)) {
      absl::MutexLock lock(&mutex_);
      ++received_;
    }
    return grpc::Status::OK;
  }

  int port_ = 0;
  absl::Mutex mutex_;
  int received_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

int Socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Counts the frames in what the receiver says (RFC 9113, section 4.1) that tell of a stream's room.
class UpdateCounter {
 public:
  void Take(const char* bytes, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      if (skip_ > 0) {
        --skip_;
        continue;
      }
      head_[at_++] = static_cast<unsigned char>(bytes[i]);
      if (at_ < sizeof(head_)) continue;
      at_ = 0;
      skip_ = uint32_t{head_[0]} << 16 | uint32_t{head_[1]} << 8 | head_[2];
      const bool of_stream = (head_[5] | head_[6] | head_[7] | head_[8]) != 0;
      if (head_[3] == kWindowUpdate && of_stream) ++updates_;
    }
  }
  int updates() const { return updates_; }

 private:
  static constexpr unsigned char kWindowUpdate = 8;
  unsigned char head_[9] = {};
  size_t at_ = 0;
  uint32_t skip_ = 0;  // of the frame's payload
  std::atomic<int> updates_ = 0;
};

// Carries one connection to a receiver.
class CountingLink {
 public:
  explicit CountingLink(int to_port) {
    const sockaddr_in any = Loopback(0);
    EXPECT_EQ(bind(listening_, reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(listen(listening_, 1), 0);
    sockaddr_in bound = {};
    socklen_t size = sizeof(bound);
    EXPECT_EQ(getsockname(listening_, reinterpret_cast<sockaddr*>(&bound), &size), 0);
    port_ = ntohs(bound.sin_port);
    there_ = std::thread([this, to_port] {
      const int sender = accept(listening_, nullptr, nullptr);
      const int receiver = Socket();
      const sockaddr_in address = Loopback(to_port);
      EXPECT_EQ(connect(receiver, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
      std::thread back([&] { Carry(receiver, sender, &counter_); });
      Carry(sender, receiver, nullptr);
      back.join();
      close(sender);
      close(receiver);
    });
  }
  ~CountingLink() {
    there_.join();
    close(listening_);
  }
  int port() const { return port_; }
  int updates() const { return counter_.updates(); }

 private:
  static void Carry(int from, int to, UpdateCounter* counter) {
    char bytes[16 << 10];
    for (ssize_t got = 0; (got = recv(from, bytes, sizeof(bytes), 0)) > 0;) {
      if (counter != nullptr) counter->Take(bytes, static_cast<size_t>(got));
      for (ssize_t sent = 0; sent < got;) {
        const ssize_t more = send(to, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
        if (more <= 0) return;
        sent += more;
      }
    }
    shutdown(to, SHUT_WR);
  }

  const int listening_ = Socket();
  int port_ = 0;
  UpdateCounter counter_;
  std::thread there_;
};

// Sends messages of `bytes` each, every one when the one before has been received, and returns how
// often the receiver told of room for more. -1: one was not received.
int UpdatesFor(Receiver& receiver, int messages, size_t bytes) {
  bool received = true;
  CountingLink link(receiver.port());
  {
    const auto stub = v1::TriggerReceiver::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", link.port()), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto stream = stub->Deliver(&context);
    v1::Delivery delivery;
    delivery.set_payload(std::string(bytes, 'p'));
    for (int sent = 1; sent <= messages && received; ++sent)
      received = stream->Write(delivery) && receiver.AwaitReceived(sent);
    if (!received) context.TryCancel();
    stream->WritesDone();
    EXPECT_EQ(stream->Finish().ok(), received);
  }
  if (!received) return -1;
  return link.updates();
}

TEST(WindowUpdatesTest, GrpcsLibraryCallsOurs) {
  ASSERT_FALSE(grpc::Version().empty());  // it is linked
  const char kName[] =
      "_ZN9grpc_core6chttp217StreamFlowControl12UpdateActionENS0_17FlowControlActionE";
  Dl_info found, program;
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, kName), &found), 0);
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&Loopback), &program), 0);
  EXPECT_EQ(found.dli_fbase, program.dli_fbase);
}

// Without it each of these messages brings one.
TEST(WindowUpdatesTest, SmallMessagesBringNoUpdateEach) {
  constexpr int kMessages = 1000;
  Receiver receiver(kWindowOfHttp2);
  const int updates = UpdatesFor(receiver, kMessages, 100);
  EXPECT_GE(updates, 0);
  EXPECT_LE(updates, kMessages / 20);
}

TEST(WindowUpdatesTest, MessagesOfAllSizesAreReceived) {
  for (const size_t bytes :
       {1, 16'000, 32'740, 32'760, 32'780, 65'500, 65'530, 65'550, 1'000'000}) {
    Receiver receiver(kWindowOfHttp2);
    EXPECT_GT(UpdatesFor(receiver, 20, bytes), bytes < 16'000 ? -1 : 0) << bytes;
  }
}

// The sender of a stream with little room is told at once that there is more.
TEST(WindowUpdatesTest, SmallWindowsAreAsWithoutIt) {
  for (const size_t bytes : {100, 900, 1100, 20'000}) {
    Receiver receiver(/*window=*/1000);
    EXPECT_GE(UpdatesFor(receiver, 20, bytes), 18) << bytes;
  }
}

}  // namespace
}  // namespace escapement
