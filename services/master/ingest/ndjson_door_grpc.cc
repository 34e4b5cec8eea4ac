#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/rest/forwarded_metadata_grpc.h"
#include "common/rest/json_bytes.h"
#include "common/rest/path_template.h"
#include "common/rest/request_reader.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "services/master/ingest/ndjson_batch.h"
#include "services/master/ingest/ndjson_door.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

constexpr size_t kUnansweredMax = 8;          // batches
constexpr size_t kAnswerBytesMax = 16 << 20;  // answers that the client has not read
constexpr int kPartsAtOnce = 16;              // parts of 64 KiB; one step unpacks no more
constexpr absl::string_view kMethod = "escapement.v1.EventService.Ingest";
constexpr absl::string_view kType = "application/x-ndjson";

// One request. It lives until both its HTTP stream and its gRPC stream have ended. Its state is
// touched on the executor only.
class NdjsonIngest final : public grpc::ClientBidiReactor<v1::IngestRequest, v1::IngestResponse>,
                           public std::enable_shared_from_this<NdjsonIngest> {
 public:
  NdjsonIngest(std::shared_ptr<Executor> executor, std::shared_ptr<HttpStream> http,
               std::string parent)
      : executor_(std::move(executor)),
        http_(std::move(http)),
        parent_(std::move(parent)),
        filling_(parent_) {}

  void Start(const std::shared_ptr<grpc::Channel>& channel, const HttpRequest& head, bool gzip) {
    if (gzip) gunzip_.emplace();
    rest::AddForwardedMetadata(head, context_);
    context_.AddMetadata("escapement-return-ids", "true");
    self_ = shared_from_this();
    stub_ = v1::EventService::NewStub(channel);
    stub_->async()->Ingest(&context_, this);
    StartRead(&response_);
    StartCall();
    Post([](NdjsonIngest& self) { self.Step(); });
  }

  void OnWriteDone(bool ok) override {
    Post([ok](NdjsonIngest& self) {
      self.sending_ = false;
      if (ok) self.Step();  // otherwise OnDone follows
    });
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    Post([response = response_](NdjsonIngest& self) {
      self.OnResponse(response);
      self.Step();
    });
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    Post([status](NdjsonIngest& self) { self.OnStreamEnded(FromGrpcStatus(status)); });
  }

 private:
  // A batch from its first sending until its answer is written.
  struct Sent {
    uint64_t number = 0;
    bool waits = true;  // to be sent
    NdjsonBatch batch;
  };

  template <typename Action>
  void Post(Action action) {
    executor_->Post(
        [self = shared_from_this(), action = std::move(action)]() mutable { action(*self); });
  }

  // Does whatever can be done now.
  void Step() {
    if (done_) return;
    bool more = false;  // the packed body has more lines
    for (int parts = 0; !filling_.full() && sent_.size() < kUnansweredMax;) {
      if (const auto line = lines_.Next(Ended()); line.has_value()) {
        filling_.Add(*line);
        continue;
      }
      if (!Unpack()) break;
      more = ++parts >= kPartsAtOnce;
      if (more) break;
    }
    // Others have their turn first: a small piece may unpack to a large one.
    if (more) Post([](NdjsonIngest& self) { self.Step(); });
    // A batch that is not full goes only if no other is under way.
    if (filling_.lines() > 0 && sent_.size() < kUnansweredMax &&
        (filling_.full() || sent_.empty() || Ended())) {
      sent_.push_back({.batch = std::exchange(filling_, NdjsonBatch(parent_))});
      sent_.back().waits = !sent_.back().batch.answered();
    }
    Send();
    WriteAnswers();
    const bool has_room = sent_.size() < kUnansweredMax && answer_.size() < kAnswerBytesMax;
    if (!body_ended_ && !reading_ && !more && has_room && !filling_.full()) Read();
    if (Ended() && !more && filling_.lines() == 0 && sent_.empty() && !half_closed_) {
      half_closed_ = true;
      StartWritesDone();
    }
  }

  // True if lines_ has all of the body.
  bool Ended() const { return body_ended_ && (!gunzip_.has_value() || unpacked_); }

  // Gives the next part of a packed body to lines_. False: there is none now.
  bool Unpack() {
    if (!gunzip_.has_value() || unpacked_) return false;
    const absl::StatusOr<std::string> part = gunzip_->Next();
    if (part.ok() && part->empty() && !body_ended_) return false;
    unpacked_ = !part.ok() || part->empty();
    if (part.ok()) lines_.Add(*part);
    if (unpacked_ && !gunzip_->complete())
      lines_.Fail(part.ok() ? InvalidField("body", "ends before its gzip does") : part.status());
    // The door does not read on after a fault.
    body_ended_ = body_ended_ || !part.ok();
    return true;
  }

  void Read() {
    reading_ = true;
    http_->Read([self = shared_from_this()](absl::StatusOr<std::string> piece) {
      self->Post([piece = std::move(piece)](NdjsonIngest& self) {
        self.reading_ = false;
        if (absl::IsDeadlineExceeded(piece.status())) return self.EndAsTooSlow();
        if (!piece.ok()) return self.Abandon();
        self.body_ended_ = piece->empty();
        if (self.gunzip_.has_value()) {
          self.gunzip_->Add(*piece);
        } else {
          self.lines_.Add(*piece);
        }
        self.Step();
      });
    });
  }

  // Whole lines that have come are ingested and answered.
  void EndAsTooSlow() {
    too_slow_ = MakeError(absl::StatusCode::kDeadlineExceeded, "STREAM_TOO_SLOW",
                          "the lines come too slowly; send single events by POST …/events");
    if (!begun_ && sent_.empty() && filling_.lines() == 0) {
      Abandon();
      return http_->Refuse(rest::ErrorAnswerAs(408, too_slow_));
    }
    body_ended_ = true;
    lines_ = NdjsonLines();
    Step();
  }

  void Send() {
    if (sending_ || half_closed_) return;
    bool behind = false;  // a batch without its answer, of which a part may have to be sent again
    for (Sent& sent : sent_) {
      if (sent.batch.answered()) continue;
      if (behind && sent.batch.goes_alone()) return;
      if (!sent.waits) {
        if (sent.batch.goes_alone()) return;
        behind = true;
        continue;
      }
      sent.waits = false;
      sent.number = ++last_number_;
      sent.batch.set_number(sent.number);
      request_ = sent.batch.request();
      sending_ = true;
      return StartWrite(&request_);
    }
  }

  void OnResponse(const v1::IngestResponse& response) {
    for (Sent& sent : sent_) {
      if (sent.number != response.batch_number()) continue;
      sent.batch.Take(response);
      sent.waits = !sent.batch.answered();
      return;
    }
  }

  void WriteAnswers() {
    while (!sent_.empty() && sent_.front().batch.answered()) {
      absl::StrAppend(&answer_, sent_.front().batch.Answer());
      sent_.pop_front();
    }
    if (answer_.empty() || writing_) return;
    BeginOnce();
    writing_ = true;
    http_->Write(std::exchange(answer_, {}), [self = shared_from_this()](absl::Status status) {
      self->Post([ok = status.ok()](NdjsonIngest& self) {
        self.writing_ = false;
        if (!ok) return self.Abandon();
        if (self.stream_ended_) return self.Finish();
        self.Step();
      });
    });
  }

  // The stream has ended, by its own end or by an error. Lines without an answer have failed.
  void OnStreamEnded(const absl::Status& status) {
    stream_ended_ = true;
    self_.reset();
    if (done_) return;
    if (!status.ok() && !begun_) {
      done_ = true;
      return http_->Refuse(rest::ErrorAnswer(status));
    }
    const absl::Status why = status.ok() ? absl::InternalError("the stream ended early") : status;
    for (Sent& sent : sent_) sent.batch.Fail(why);
    filling_.Fail(why);
    if (filling_.lines() > 0)
      sent_.push_back({.waits = false, .batch = std::exchange(filling_, NdjsonBatch(parent_))});
    Finish();
  }

  void Finish() {
    WriteAnswers();
    if (writing_) return;
    if (!too_slow_.ok()) {
      answer_ = rest::ErrorAnswer(std::exchange(too_slow_, absl::OkStatus())).body;
      return WriteAnswers();
    }
    done_ = true;
    BeginOnce();
    http_->End();
  }

  void BeginOnce() {
    if (!std::exchange(begun_, true))
      http_->Begin({.content_type = std::string(kType), .headers = rest::AnswerHeaders()});
  }

  // The client has gone.
  void Abandon() {
    if (std::exchange(done_, true)) return;
    context_.TryCancel();
  }

  const std::shared_ptr<Executor> executor_;
  const std::shared_ptr<HttpStream> http_;
  const std::string parent_;
  std::shared_ptr<NdjsonIngest> self_;  // until gRPC has called OnDone
  std::unique_ptr<v1::EventService::Stub> stub_;
  grpc::ClientContext context_;
  v1::IngestResponse response_;
  v1::IngestRequest request_;  // while sending_

  NdjsonLines lines_;
  NdjsonBatch filling_;
  std::deque<Sent> sent_;  // in the order of their lines
  uint64_t last_number_ = 0;
  std::string answer_;                        // not written yet
  absl::Status too_slow_;                     // the last line of the answer; OK: none
  std::optional<rest::GunzipStream> gunzip_;  // if the body is packed
  bool unpacked_ = false;                     // lines_ has all that can be unpacked
  bool body_ended_ = false;                   // no more of it is read
  bool reading_ = false;
  bool sending_ = false;
  bool writing_ = false;
  bool begun_ = false;  // the HTTP answer
  bool half_closed_ = false;
  bool stream_ended_ = false;
  bool done_ = false;
};

// "" if the path has no parent.
std::string ParentOf(const rest::PathTemplate& path, const HttpRequest& head) {
  const auto parsed = rest::RequestPath::Parse(head.path);
  if (!parsed.ok()) return {};
  const auto bindings = path.Match(*parsed);
  return bindings.has_value() ? bindings->front().second : std::string();
}

}  // namespace

NdjsonDoor::NdjsonDoor(std::shared_ptr<grpc::Channel> in_process, Runtime& runtime,
                       std::function<absl::Status(HttpRequest&)> admit)
    : channel_(std::move(in_process)),
      executor_(runtime.NewExecutor("ndjson")),
      admit_(std::move(admit)) {}

NdjsonDoor::~NdjsonDoor() { executor_->Stop(); }

void NdjsonDoor::AddTo(HttpServer& http, const rest::RestRoute& route) {
  CHECK(route.method->full_name() == kMethod) << route.grpc_path;
  const std::string& text = route.path.text();
  http.RouteStream(route.http_method, text.substr(0, text.find('{')),
                   text.substr(text.rfind('}') + 1),
                   [this, path = route.path](HttpRequest head, std::shared_ptr<HttpStream> stream) {
                     if (auto status = admit_(head); !status.ok())
                       return stream->Refuse(rest::ErrorAnswer(status));
                     std::string parent = ParentOf(path, head);
                     if (parent.empty()) {
                       return stream->Refuse(rest::ErrorAnswer(
                           MakeError(absl::StatusCode::kNotFound, "UNKNOWN_PATH", "no such path")));
                     }
                     if (const auto tenant = ParseTenantName(parent, "parent"); !tenant.ok())
                       return stream->Refuse(rest::ErrorAnswer(tenant.status()));
                     const absl::StatusOr<bool> gzip = rest::BodyIsGzip(head);
                     if (!gzip.ok()) return stream->Refuse(rest::ErrorAnswerAs(415, gzip.status()));
                     std::make_shared<NdjsonIngest>(executor_, std::move(stream), std::move(parent))
                         ->Start(channel_, head, *gzip);
                   });
}

}  // namespace escapement::master
