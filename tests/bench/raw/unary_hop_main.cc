// unary_hop_main: a bare gRPC server that answers every unary call of any method.
//
//   unary_hop_main --answer=FILE        answers with the bytes of the file
//   unary_hop_main --next=HOST:PORT     sends the request on and answers what comes back
//
// The two, one behind the other, are the raw limit of a call that a front process can answer only
// with the help of a second process. They do nothing with the bytes. Prints "grpc PORT" and runs
// until stdin ends.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel.h"

ABSL_FLAG(std::string, answer, "", "the file whose bytes are the answer");
ABSL_FLAG(std::string, next, "", "host:port of the server that knows the answer");

namespace {

using grpc::ByteBuffer;

class Hop final : public grpc::CallbackGenericService {
 public:
  Hop(const ByteBuffer& answer, std::unique_ptr<grpc::GenericStub> next)
      : answer_(answer), next_(std::move(next)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(*this, context->method());
  }

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    Call(Hop& hop, const std::string& method) : hop_(hop), method_(method) { StartRead(&bytes_); }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no request"));
      if (hop_.next_ == nullptr) {
        bytes_ = hop_.answer_;
        return Write(grpc::Status::OK);
      }
      hop_.next_->UnaryCall(&context_, method_, grpc::StubOptions(), &bytes_, &answer_,
                            [this](const grpc::Status& status) {
                              bytes_ = answer_;
                              Write(status);
                            });
    }
    void OnDone() override { delete this; }

   private:
    void Write(const grpc::Status& status) {
      status.ok() ? StartWriteAndFinish(&bytes_, grpc::WriteOptions(), status) : Finish(status);
    }

    Hop& hop_;
    const std::string method_;
    grpc::ClientContext context_;
    ByteBuffer bytes_;  // the request, then the answer
    ByteBuffer answer_;
  };

  const ByteBuffer answer_;
  const std::unique_ptr<grpc::GenericStub> next_;  // null: this is the last server
};

ByteBuffer BytesOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const grpc::Slice slice(bytes);
  return ByteBuffer(&slice, 1);
}

}  // namespace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  // The platform's processes do the same.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const std::string next = absl::GetFlag(FLAGS_next);
  Hop hop(
      BytesOf(absl::GetFlag(FLAGS_answer)),
      next.empty() ? nullptr : std::make_unique<grpc::GenericStub>(escapement::NewChannel(next)));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&hop);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return 1;
  std::cout << "grpc " << port << std::endl;
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  server->Shutdown();
}
