// Receives events over gRPC (escapement.v1.TriggerReceiver), works on them one after another, and
// gives their tokens back.
//
// Usage: consumer [PORT]    (default 8080; 0 chooses a free port)

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <mutex>
#include <set>
#include <string>

#include "escapement/v1/token_service.grpc.pb.h"
#include "escapement/v1/trigger_receiver_service.grpc.pb.h"
#include "google/protobuf/util/time_util.h"

namespace v1 = escapement::v1;

class Receiver final : public v1::TriggerReceiver::Service {
 public:
  // Each handler of the platform keeps one stream open, which needs a thread of this server.
  grpc::Status Deliver(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::DeliveryResult, v1::Delivery>* stream) override {
    v1::Delivery delivery;
    while (stream->Read(&delivery)) {
      v1::DeliveryResult result;
      result.set_delivery_number(delivery.delivery_number());
      result.set_status(v1::DeliveryResult::ACCEPTED);
      {
        std::lock_guard lock(mutex_);
        jobs_.push_back(std::move(delivery));
      }
      changed_.notify_one();
      // The event counts as delivered. A program that must not lose it stores it before this
      // answer.
      stream->Write(result);
    }
    return grpc::Status::OK;
  }

  // Waits for the next delivery.
  v1::Delivery Next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !jobs_.empty(); });
    v1::Delivery delivery = std::move(jobs_.front());
    jobs_.pop_front();
    return delivery;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::Delivery> jobs_;
};

// Gives a token back. Ends the program if the platform cannot be reached.
std::string GiveBack(v1::TokenService::Stub& tokens, const std::string& token) {
  v1::CompleteTokensRequest request;
  request.add_completions()->set_token(token);
  request.mutable_completions(0)->set_outcome(v1::TokenCompletion::SUCCEEDED);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::CompleteTokensResponse response;
  const grpc::Status status = tokens.CompleteTokens(&context, request, &response);
  if (!status.ok()) {
    std::cerr << "CompleteTokens: " << status.error_message() << "\n";
    std::exit(1);
  }
  return v1::TokenResult::Status_Name(response.results(0).status());
}

int main(int argc, char** argv) {
  Receiver receiver;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("127.0.0.1:") + (argc > 1 ? argv[1] : "8080"),
                           grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&receiver);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::cout << "listening 127.0.0.1:" << port << std::endl;

  const char* platform = std::getenv("ESCAPEMENT_SERVER");
  v1::TokenService::Stub tokens(grpc::CreateChannel(
      platform == nullptr ? "127.0.0.1:7410" : platform, grpc::InsecureChannelCredentials()));
  std::set<std::string> done;
  while (true) {
    const v1::Delivery delivery = receiver.Next();
    // After a fault an event may arrive twice, with the same id. A real service keeps the ids in
    // its database.
    if (done.insert(delivery.event_id()).second) {
      std::cout << "received " << delivery.event_id() << " of "
                << google::protobuf::util::TimeUtil::ToString(delivery.nominal_time()) << ": "
                << delivery.payload() << std::endl;
    }
    // Only events with a throttling policy hold a token. Until it is back, the next event may wait.
    if (!delivery.token().empty()) {
      const std::string status = GiveBack(tokens, delivery.token());
      std::cout << "token back " << delivery.event_id() << ": " << status << std::endl;
    }
  }
}
