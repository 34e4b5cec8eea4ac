#include "services/store/service/snapshot_export_grpc.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/log.h"
#include "common/kv/snapshot_file/snapshot_file.h"
#include "common/rpc/ordered_stream_grpc.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/status/errors.h"
#include "escapement/v1/store_service.pb.h"

namespace escapement::store {
namespace {

void Delete(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error)
    Log(LogLevel::kWarning, "export", "cannot delete a checkpoint", {{"error", error.message()}});
}

}  // namespace

// One call. The answers are made on the executor, one after the other.
class SnapshotExport::Stream final : public grpc::ServerGenericBidiReactor {
 public:
  Stream(SnapshotExport& owner, AdmittedCall call) : owner_(owner), call_(std::move(call)) {
    StartRead(&bytes_);
  }

  void OnReadDone(bool ok) override {
    v1::ExportSnapshotRequest request;
    absl::Status status = ok ? ReadMessage(bytes_, &request) : UnreadableMessage();
    if (status.ok()) status = call_.CheckRequest(request);
    if (!status.ok()) return End(status);
    if (owner_.running_.exchange(true)) {
      return End(
          ResourceExhausted("EXPORT_RUNS", "another export of this store runs", absl::Seconds(10)));
    }
    runs_ = true;
    owner_.executor_->Post([this] { Begin(); });
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::CancelledError("the client has gone"));
    owner_.executor_->Post([this] { WriteNext(); });
  }

  void OnDone() override {
    if (!runs_) {
      delete this;
      return;
    }
    owner_.executor_->Post([this] {
      Delete(owner_.folder_);
      owner_.running_ = false;
      delete this;
    });
  }

 private:
  void Begin() {
    Delete(owner_.folder_);
    if (const absl::Status status = owner_.make_checkpoint_(owner_.folder_); !status.ok())
      return End(status);
    writer_.emplace(owner_.folder_);
    WriteNext();
  }

  void WriteNext() {
    auto chunk = writer_->Next();
    if (!chunk.ok()) return End(chunk.status());
    if (chunk->empty()) return End(absl::OkStatus());
    v1::ExportSnapshotResponse response;
    response.set_data(*std::move(chunk));
    WriteMessage(response, &bytes_);
    StartWrite(&bytes_);
  }

  void End(const absl::Status& status) {
    call_.gate->OnAnswered(*call_.method, *call_.caller, "", "", status);
    Finish(ToGrpcStatus(status));
  }

  SnapshotExport& owner_;
  const AdmittedCall call_;
  bool runs_ = false;
  grpc::ByteBuffer bytes_;  // the request, then an answer
  std::optional<kv::SnapshotFileWriter> writer_;
};

SnapshotExport::SnapshotExport(std::string folder,
                               std::function<absl::Status(const std::string&)> make_checkpoint,
                               Runtime& runtime)
    : folder_(std::move(folder)),
      make_checkpoint_(std::move(make_checkpoint)),
      executor_(runtime.NewExecutor("snapshot-export")) {
  Delete(folder_);
}

SnapshotExport::~SnapshotExport() { executor_->Stop(); }

void SnapshotExport::AddRpcs(RpcTable& table) {
  table.AddStream("escapement.v1.StoreService.ExportSnapshot",
                  [this](AdmittedCall call) { return new Stream(*this, std::move(call)); });
}

}  // namespace escapement::store
