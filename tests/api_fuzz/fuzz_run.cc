#include "tests/api_fuzz/fuzz_run.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "google/rpc/status.pb.h"

namespace escapement::api_fuzz {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kShownBytesMax = 2000;
constexpr uint64_t kCallsBetweenChecks = 250;
constexpr size_t kRequestBytesMax = 8 << 20;  // the transport itself refuses larger requests

std::string Cut(std::string text) {
  if (text.size() <= kShownBytesMax) return text;
  return absl::StrCat(text.substr(0, kShownBytesMax), "… (", text.size(), " characters)");
}

std::string Text(const Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

bool Flag(const Message& message, const std::string& name) {
  const auto* field = message.GetDescriptor()->FindFieldByName(name);
  return field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL &&
         message.GetReflection()->GetBool(message, field);
}

// The message's one field of repeated messages, or nullptr.
const FieldDescriptor* ItemsOf(const google::protobuf::Descriptor& type) {
  const FieldDescriptor* items = nullptr;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->is_repeated() && !field->is_map() && field->message_type() != nullptr) items = field;
  }
  return items;
}

bool Pages(const google::protobuf::Descriptor& request) {
  return request.FindFieldByName("page_size") != nullptr &&
         request.FindFieldByName("page_token") != nullptr &&
         request.FindFieldByName("parent") != nullptr;
}

// The resource that a request names in the field `path`: "name" or, for example, "schedule.name".
std::string NameIn(const Message& request, absl::string_view path) {
  const size_t dot = path.find('.');
  if (dot == path.npos) return StringOf(request, std::string(path));
  const auto* field = request.GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
  if (field == nullptr || field->message_type() == nullptr) return "";
  return NameIn(request.GetReflection()->GetMessage(request, field), path.substr(dot + 1));
}

std::unique_ptr<Message> CopyOf(const Message& message) {
  std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  return copy;
}

// Positions of a batch's records without effect.
std::set<int> IgnoredIn(const Message& answer) {
  std::set<int> positions;
  const FieldDescriptor* ignored = answer.GetDescriptor()->FindFieldByName("ignored");
  for (int i = 0; ignored != nullptr && i < answer.GetReflection()->FieldSize(answer, ignored);
       ++i) {
    const Message& each = answer.GetReflection()->GetRepeatedMessage(answer, ignored, i);
    positions.insert(
        each.GetReflection()->GetInt32(each, each.GetDescriptor()->FindFieldByName("position")));
  }
  return positions;
}

// The record cancels the event with its id.
bool Cancels(const Message& event) {
  const FieldDescriptor* mode = event.GetDescriptor()->FindFieldByName("mode");
  return mode != nullptr && event.GetReflection()->GetEnum(event, mode)->name() == "CANCEL";
}

}  // namespace

FuzzRun::FuzzRun(WireApi& api, Options options)
    : api_(api),
      options_(std::move(options)),
      values_(options_.seed, options_.http_uris, options_.grpc_uris),
      maker_(api, model_, values_) {
  for (const Method& method : api.methods()) {
    const bool creates = absl::StartsWith(method.name(), "Create");
    // Its answers are pieces of a file, as many as the store's size makes.
    if (method.descriptor->server_streaming() && !method.streams()) continue;
    drawn_.insert(drawn_.end(), creates ? 4 : 1, &method);
  }
}

const std::vector<std::string>& FuzzRun::Run() {
  while (call_ < options_.calls && findings_.size() < options_.findings_max) {
    Step();
    if (call_ % kCallsBetweenChecks == 0) CheckAll();
    if (options_.alive && !options_.alive()) {
      findings_.push_back(
          absl::StrCat("seed ", options_.seed, ", call ", call_, ": the process has ended"));
      return findings_;
    }
  }
  CheckAll();
  return findings_;
}

void FuzzRun::Step() {
  ++call_;
  const Method& method = *values_.OneOf(drawn_);
  if (method.streams()) {
    Stream(method);
  } else {
    Unary(method);
  }
}

FuzzRun::Exchange FuzzRun::Call(const Method& method, std::vector<std::string> sent, bool damaged,
                                size_t cancel_after) {
  Exchange call{.method = &method, .sent = std::move(sent), .damaged = damaged};
  call.answer = api_.Call(method, call.sent, {.cancel_after = cancel_after});
  const absl::Status status = FromGrpcStatus(call.answer.status);
  ++tally_[absl::StrCat(method.name(), " ", absl::StatusCodeToString(status.code()))];
  const bool cancelled = cancel_after > 0 && status.code() == absl::StatusCode::kCancelled;
  if (std::string wrong = JudgeStatus(call.answer.status); !wrong.empty() && !cancelled)
    Found(call, wrong);
  if (!damaged && ErrorReason(status) == "UNREADABLE_MESSAGE")
    Found(call, "a message of the method's type is called unreadable");
  for (const std::string& bytes : call.answer.messages) {
    call.answers.push_back(api_.New(method.descriptor->output_type()));
    if (!call.answers.back()->ParseFromString(bytes)) Found(call, "the answer is not a message");
    if (std::string wrong = JudgeTexts(*call.answers.back()); !wrong.empty()) Found(call, wrong);
  }
  const size_t expected = call.sent.size();
  if (status.ok() && call.answers.size() != expected)
    Found(call, absl::StrCat(expected, " messages have ", call.answers.size(), " answers"));
  return call;
}

void FuzzRun::Unary(const Method& method) {
  const auto request = maker_.Make(method);
  std::string bytes = request->SerializeAsString();
  const bool damaged = values_.Chance(4);
  if (damaged) bytes = values_.Damage(std::move(bytes));
  if (bytes.size() > kRequestBytesMax) return;
  const bool readable = request->ParseFromString(bytes);  // whether the server can read it
  const Exchange call = Call(method, {std::move(bytes)}, damaged);
  const bool refused = ErrorReason(FromGrpcStatus(call.answer.status)) == "UNREADABLE_MESSAGE";
  if (refused == readable) Found(call, readable ? "is called unreadable" : "cannot be read");
  if (readable) Learn(call, *request);
}

void FuzzRun::Stream(const Method& method) {
  std::vector<std::string> sent;
  bool damaged = false;
  const uint64_t count = values_.Chance(5) ? 80 : 1 + values_.Below(6);
  size_t bytes = 0;
  while (sent.size() < count) {
    std::string message = maker_.Make(method)->SerializeAsString();
    if (values_.Chance(4)) {
      message = values_.Damage(std::move(message));
      damaged = true;
    }
    bytes += message.size();
    if (bytes > kRequestBytesMax) break;
    sent.push_back(std::move(message));
  }
  const size_t cancel_after = values_.Chance(5) ? 1 : 0;
  const Exchange call = Call(method, std::move(sent), damaged, cancel_after);
  if (method.name() == "Ingest") LearnIngested(call);
}

void FuzzRun::Learn(const Exchange& call, const Message& request) {
  const Method& method = *call.method;
  const std::string request_id = StringOf(request, "request_id");
  const bool first_use = request_id.empty() || request_ids_.insert(request_id).second;
  const absl::Status status = FromGrpcStatus(call.answer.status);
  const std::string named = NameIn(request, method.name_field);
  const bool reads =
      absl::StartsWith(method.name(), "Get") || absl::StartsWith(method.name(), "List") ||
      absl::StartsWith(method.name(), "Preview") || absl::StartsWith(method.name(), "Forecast") ||
      absl::StartsWith(method.name(), "Explain");
  if (Flag(request, "validate_only")) return;
  // A repeated request gets its first answer, which may differ from the present state.
  if (!reads && (!first_use || status.code() == absl::StatusCode::kResourceExhausted))
    model_.Forget(named);
  if (!status.ok() || call.answers.empty()) return;
  const Message& answer = *call.answers[0];
  model_.KeepHandles(answer);
  if (!first_use) return model_.Forget(StringOf(answer, "name"));
  if (absl::StartsWith(method.name(), "Delete")) {
    model_.Deleted(named);
    return CheckGone(named);
  }
  const std::string name = StringOf(answer, "name");
  if (const Method* getter = api_.GetterOf(name);
      getter != nullptr && getter->descriptor->output_type() == answer.GetDescriptor()) {
    const Message* known = model_.Find(name);
    if (reads && known != nullptr) {
      if (std::string differs = Difference(*known, answer); !differs.empty())
        Found(call, absl::StrCat("Get does not show what was acknowledged: ", differs));
    }
    model_.Exists(CopyOf(answer));
    if (!reads) CheckThere(name);
  }
  const FieldDescriptor* items = ItemsOf(*answer.GetDescriptor());
  if (items == nullptr || reads) return;
  for (int i = 0; i < answer.GetReflection()->FieldSize(answer, items); ++i) {
    const Message& item = answer.GetReflection()->GetRepeatedMessage(answer, items, i);
    const std::string item_name = StringOf(item, "name");
    if (api_.GetterOf(item_name) == nullptr) continue;
    model_.Exists(CopyOf(item));
    if (i < 5) CheckThere(item_name);
  }
}

// Events with a client's id exist once their batch is answered.
void FuzzRun::LearnIngested(const Exchange& call) {
  std::string tenant;  // the parent of the last batch that had one
  for (size_t i = 0; i < call.answers.size() && i < call.sent.size(); ++i) {
    const auto* code = call.answers[i]->GetDescriptor()->FindFieldByName("error_code");
    const auto batch = api_.New(call.method->descriptor->input_type());
    const auto* events = batch->GetDescriptor()->FindFieldByName("events");
    if (code == nullptr || events == nullptr || !batch->ParseFromString(call.sent[i])) return;
    if (std::string parent = StringOf(*batch, "parent"); !parent.empty())
      tenant = std::move(parent);
    if (call.answers[i]->GetReflection()->GetInt32(*call.answers[i], code) != 0) continue;
    const std::set<int> ignored = IgnoredIn(*call.answers[i]);
    for (int k = 0; k < std::min(batch->GetReflection()->FieldSize(*batch, events), 5); ++k) {
      const Message& event = batch->GetReflection()->GetRepeatedMessage(*batch, events, k);
      const std::string id = StringOf(event, "event_id");
      if (id.empty() || Cancels(event) || ignored.contains(k)) continue;
      const std::string name = absl::StrCat(tenant, "/events/", id);
      model_.ExistsByName(name);
      CheckThere(name);
    }
  }
}

std::optional<FuzzRun::Exchange> FuzzRun::Get(const std::string& name) {
  const Method* getter = api_.GetterOf(name);
  if (getter == nullptr) return std::nullopt;
  auto request = api_.New(getter->descriptor->input_type());
  request->GetReflection()->SetString(request.get(),
                                      request->GetDescriptor()->FindFieldByName("name"), name);
  return Call(*getter, {request->SerializeAsString()});
}

void FuzzRun::CheckThere(const std::string& name) {
  const std::optional<Exchange> got = Get(name);
  if (!got.has_value()) return;
  const Exchange& call = *got;
  if (!call.answer.status.ok()) {
    Found(call, "what was acknowledged is not there");
    return model_.Forget(name);
  }
  if (call.answers.empty()) return;
  const Message* known = model_.Find(name);
  const std::string differs = known == nullptr ? "" : Difference(*known, *call.answers[0]);
  if (!differs.empty())
    Found(call, absl::StrCat("Get does not show what was acknowledged: ", differs));
  model_.Exists(CopyOf(*call.answers[0]));
}

void FuzzRun::CheckGone(const std::string& name) {
  const std::optional<Exchange> got = Get(name);
  if (!got.has_value()) return;
  const Exchange& call = *got;
  if (call.answer.status.error_code() == grpc::StatusCode::NOT_FOUND) return;
  Found(call, "what was deleted is there");
  model_.Forget(name);
}

void FuzzRun::CheckList(const Method& method, const std::string& parent) {
  const FieldDescriptor* items = ItemsOf(*method.descriptor->output_type());
  if (items == nullptr || !Pages(*method.descriptor->input_type())) return;
  Listed listed;
  Exchange call;
  // Events move by themselves between the list of those that have not ended and the list of the
  // others. A move within the first list may hide one, so they are listed again.
  const bool moves = method.name() == "ListEvents";
  std::vector<std::string> missing;
  for (int round = 0; round < (moves ? 3 : 1); ++round) {
    for (const std::string& order : moves ? std::vector<std::string>{"due_time", "complete_time"}
                                          : std::vector<std::string>{""}) {
      if (!ReadList(method, parent, order, listed, call)) return;
    }
    missing.clear();
    // A list holds the names in its parent's collection.
    const std::string kind = absl::StrCat(parent, "/", items->name(), "/");
    const std::string prefix = listed.collection.empty() ? kind : listed.collection;
    for (const std::string& name : model_.Names()) {
      if (name.substr(0, name.rfind('/') + 1) == prefix && !listed.names.contains(name))
        missing.push_back(name);
    }
    if (missing.empty()) return;
  }
  for (const std::string& name : missing) {
    const Message* known = model_.Find(name);
    Found(call, absl::StrCat(name, " is not listed",
                             known == nullptr ? "" : absl::StrCat(": ", Text(*known))));
  }
}

// Reads all pages. False if that fails.
bool FuzzRun::ReadList(const Method& method, const std::string& parent, const std::string& order,
                       Listed& listed, Exchange& call) {
  const FieldDescriptor* items = ItemsOf(*method.descriptor->output_type());
  const auto* type = method.descriptor->input_type();
  std::string token;
  do {
    auto request = api_.New(type);
    const auto* reflection = request->GetReflection();
    reflection->SetString(request.get(), type->FindFieldByName("parent"), parent);
    reflection->SetString(request.get(), type->FindFieldByName("page_token"), token);
    reflection->SetInt32(request.get(), type->FindFieldByName("page_size"),
                         values_.OneOf<int32_t>({1, 2, 3, 7, 20, 0, 1000}));
    if (!order.empty())
      reflection->SetString(request.get(), type->FindFieldByName("order_by"), order);
    call = Call(method, {request->SerializeAsString()});
    if (!call.answer.status.ok()) {
      Found(call, "a list of what is there is refused");
      return false;
    }
    if (call.answers.empty()) return false;
    const Message& page = *call.answers[0];
    for (int i = 0; i < page.GetReflection()->FieldSize(page, items); ++i) {
      const Message& item = page.GetReflection()->GetRepeatedMessage(page, items, i);
      const std::string name = StringOf(item, "name");
      listed.collection = name.substr(0, name.rfind('/') + 1);
      // A list with an order of its own is of resources that move.
      if (!listed.names.insert(name).second && order.empty())
        Found(call, absl::StrCat(name, " is listed twice"));
      if (model_.IsGone(name)) Found(call, absl::StrCat(name, " is listed and was deleted"));
      const Message* known = model_.Find(name);
      const std::string differs = known == nullptr ? "" : Difference(*known, item);
      if (!differs.empty()) Found(call, absl::StrCat("the list differs from the Get: ", differs));
    }
    token = StringOf(page, "next_page_token");
  } while (!token.empty());
  return true;
}

void FuzzRun::CheckAll() {
  for (const std::string& name : model_.Names()) CheckThere(name);
  for (const std::string& name : std::set<std::string>(model_.gone())) CheckGone(name);
  for (const Method& method : api_.methods()) {
    // A list without a parent is of things that are no resources.
    if (!absl::StartsWith(method.name(), "List") ||
        method.descriptor->input_type()->FindFieldByName("parent") == nullptr)
      continue;
    if (Matches("tenants/default", method.pattern)) CheckList(method, "tenants/default");
    int parents = 0;
    for (const std::string& parent : model_.Names(method.pattern)) {
      if (++parents <= 10) CheckList(method, parent);
    }
  }
}

void FuzzRun::Found(const Exchange& call, const std::string& what) {
  findings_.push_back(
      absl::StrCat("seed ", options_.seed, ", call ", call_, ": ", what, "\n", Show(call)));
}

std::string FuzzRun::Show(const Exchange& call) {
  std::string text = absl::StrCat("    ", call.method->path, "\n");
  for (const std::string& bytes : call.sent) {
    const auto request = api_.New(call.method->descriptor->input_type());
    absl::StrAppend(&text, "      ",
                    Cut(request->ParseFromString(bytes)
                            ? absl::StrCat("{ ", Text(*request), "}")
                            : absl::StrCat("not a message: ", absl::CHexEscape(bytes))),
                    "\n");
  }
  absl::StrAppend(&text, "    answer: ");
  for (const auto& answer : call.answers) absl::StrAppend(&text, Cut(Text(*answer)), "\n");
  if (!call.answer.status.ok())
    absl::StrAppend(&text, EscapeForTerminal(Cut(FromGrpcStatus(call.answer.status).ToString())));
  return text + "\n";
}

namespace {

using google::protobuf::FieldDescriptor;

bool MayEnd(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

// Tabs are allowed between fields of cron expressions and in values of HTTP headers.
bool IsPlain(const FieldDescriptor& field, std::string text) {
  if (field.full_name() == "escapement.v1.HttpTarget.HeadersEntry.value" ||
      field.name() == "cron" || field.name() == "exclusions" ||
      field.containing_type()->name() == "CronFields")
    std::erase(text, '\t');
  // Several lines of a consumer.
  if (field.name() == "answer_text" || field.name() == "output_text")
    std::erase_if(text, [](char c) { return c == '\t' || c == '\r' || c == '\n'; });
  return !HasControlCharacters(text);
}

}  // namespace

std::string JudgeStatus(const grpc::Status& wire) {
  if (wire.ok()) return "";
  const absl::Status status = FromGrpcStatus(wire);
  if (!MayEnd(status.code()))
    return absl::StrCat("the call ended with ", absl::StatusCodeToString(status.code()));
  const std::string reason = ErrorReason(status);
  if (reason.empty()) return "the error has no ErrorInfo";
  if (HasControlCharacters(status.message())) return "the error's message is not plain";
  for (const char* key : {"resource", "field", "state"}) {
    if (HasControlCharacters(ErrorMetadataValue(status, key)))
      return absl::StrCat("the error's ", key, " is not plain");
  }
  const auto violations = FieldViolationsOf(status);
  if (status.code() == absl::StatusCode::kInvalidArgument && violations.empty() &&
      reason != "UNREADABLE_MESSAGE")
    return "the error names no field";
  for (const auto& [field, description] : violations) {
    if (HasControlCharacters(field) || HasControlCharacters(description))
      return "a violation is not plain";
  }
  return "";
}

std::string JudgeTexts(const google::protobuf::Message& answer) {
  const auto* reflection = answer.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection->ListFields(answer, &set);
  for (const FieldDescriptor* field : set) {
    const int count = field->is_repeated() ? reflection->FieldSize(answer, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->message_type() != nullptr) {
        const auto& part = field->is_repeated() ? reflection->GetRepeatedMessage(answer, field, i)
                                                : reflection->GetMessage(answer, field);
        if (std::string wrong = JudgeTexts(part); !wrong.empty()) return wrong;
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        const std::string text = field->is_repeated()
                                     ? reflection->GetRepeatedString(answer, field, i)
                                     : reflection->GetString(answer, field);
        if (!IsPlain(*field, text))
          return absl::StrCat("the answer's ", field->full_name(), " is not plain");
      } else if (field->name() == "error_code" &&
                 !MayEnd(static_cast<absl::StatusCode>(reflection->GetInt32(answer, field)))) {
        return absl::StrCat("the answer's error_code is ", reflection->GetInt32(answer, field));
      }
    }
  }
  return "";
}

absl::StatusOr<std::unique_ptr<Bed>> Bed::Start(const std::string& bin, const std::string& folder) {
  std::unique_ptr<Bed> bed(new Bed);
  ASSIGN_OR_RETURN(auto http, fixtures::HttpReceiver::Start({.record = false}, &bed->receipts_));
  bed->http_ = std::move(http);
  for (auto [behaviour, receiver] :
       {std::pair("", &bed->grpc_), {"/status/410", &bed->rejecting_}}) {
    ASSIGN_OR_RETURN(
        auto started,
        fixtures::GrpcReceiver::Start(
            {.behaviour = behaviour, .failure_message = "\x1b[2J\xc2\x9b\x7f\n", .record = false},
            &bed->receipts_));
    *receiver = std::move(started);
  }
  bed->platform_ = std::make_unique<integration::Platform>(
      integration::Platform::Options{.bin = bin, .folder = folder});
  RETURN_IF_ERROR(bed->platform_->Start({"standalone"}));
  ASSIGN_OR_RETURN(auto api,
                   WireApi::Connect(bed->platform_->grpc_address("standalone"), "escapement.v1"));
  bed->api_ = std::move(api);
  return bed;
}

FuzzRun::Options Bed::OptionsFor(uint64_t seed, uint64_t calls) {
  return {.seed = seed,
          .calls = calls,
          .http_uris = {http_->origin() + "/a", http_->origin() + "/status/503",
                        http_->origin() + "/status/410", "http://127.0.0.1:1/"},
          .grpc_uris = {grpc_->target(), rejecting_->target(), "127.0.0.1:1"},
          .alive = [this] { return platform_->Runs("standalone"); }};
}

std::string Bed::End() {
  if (!platform_->Runs("standalone")) return "the process ended by itself";
  const auto code = platform_->Terminate("standalone", absl::Seconds(30));
  if (!code.ok()) return absl::StrCat("the process does not end: ", code.status().ToString());
  return *code == 0 ? "" : absl::StrCat("the process ended with ", *code);
}

}  // namespace escapement::api_fuzz
