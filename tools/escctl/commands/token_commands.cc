#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "escapement/v1/token_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using TokenStub = v1::TokenService::Stub;

constexpr size_t kTokensOfOneCall = 10'000;
constexpr char kTokensHelp[] =
    "tokens that came with the events (escctl policy usage shows them); - = stdin, one per line";

// The given tokens; "-" stands for the tokens on stdin.
std::vector<std::string> ReadTokens(const std::vector<std::string>& given) {
  std::vector<std::string> tokens;
  for (const std::string& token : given) {
    if (token != "-") {
      tokens.push_back(token);
      continue;
    }
    std::string line;
    while (std::getline(std::cin, line)) {
      if (!line.empty()) tokens.push_back(line);
    }
  }
  return tokens;
}

void PrintResults(Session& session, const std::vector<std::string>& tokens,
                  const std::vector<v1::TokenResult>& results) {
  std::vector<Row> rows;
  std::vector<const google::protobuf::Message*> messages;
  size_t invalid = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    rows.push_back({tokens[i], v1::TokenResult::Status_Name(results[i].status())});
    messages.push_back(&results[i]);
    if (results[i].status() == v1::TokenResult::INVALID) ++invalid;
  }
  session.Print(session.format() == OutputFormat::kTable
                    ? FormatTable({"TOKEN", "STATUS"}, rows)
                    : FormatMessages(messages, session.format()));
  if (invalid > 0) {
    session.Fail(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                              absl::StrCat(Counted(invalid, "token"), invalid == 1 ? " is" : " are",
                                           " not of this platform")));
  }
}

// Calls `method` with the tokens, as many in one call as it accepts; `fill` adds one to a request.
template <typename Request, typename Response, typename Fill>
void CallWithTokens(Session& session, const std::vector<std::string>& given,
                    grpc::Status (TokenStub::*method)(grpc::ClientContext*, const Request&,
                                                      Response*),
                    const Fill& fill) {
  const std::vector<std::string> tokens = ReadTokens(given);
  std::vector<v1::TokenResult> results;
  grpc::Status status;
  while (results.size() < tokens.size() && status.ok()) {
    Request request;
    const size_t end = std::min(tokens.size(), results.size() + kTokensOfOneCall);
    for (size_t i = results.size(); i < end; ++i) fill(tokens[i], &request);
    Response response;
    status = session.Call(method, request, response);
    if (status.ok() && static_cast<size_t>(response.results_size()) != end - results.size())
      status = grpc::Status(grpc::StatusCode::INTERNAL, "not every token was answered");
    if (status.ok())
      results.insert(results.end(), response.results().begin(), response.results().end());
  }
  // Print the results so far even if there was an error.
  if (status.ok() || !results.empty()) PrintResults(session, tokens, results);
  if (!status.ok()) session.Fail(status);
}

void AddComplete(CLI::App& group, Session& session) {
  struct Options {
    std::vector<std::string> tokens;
    std::string outcome = "SUCCEEDED";
    std::string output;
    bool final = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("complete", "report that the work of events is done");
  command->add_option("tokens", o->tokens, kTokensHelp)->required();
  command->add_option("--outcome", o->outcome, "how the work ended: SUCCEEDED or FAILED")
      ->transform(CLI::IsMember({"SUCCEEDED", "FAILED"}, CLI::ignore_case))
      ->capture_default_str();
  command->add_option("--output", o->output,
                      "kept with the event, the reason if it failed: text, or @file (the format of "
                      "what is printed is -o)");
  command->add_flag("--final", o->final, "only with --outcome FAILED: do not retry the event");
  command->callback([o, &session] {
    auto output = TextOrFile(o->output);
    if (!output.ok()) return session.FailUsage(output.status().message());
    v1::TokenCompletion::WorkOutcome outcome{};
    v1::TokenCompletion::WorkOutcome_Parse(o->outcome, &outcome);
    if (o->final && outcome != v1::TokenCompletion::FAILED)
      return session.FailUsage("--final needs --outcome FAILED");
    CallWithTokens(session, o->tokens, &TokenStub::CompleteTokens,
                   [&](const std::string& token, v1::CompleteTokensRequest* request) {
                     v1::TokenCompletion* completion = request->add_completions();
                     completion->set_token(token);
                     completion->set_outcome(outcome);
                     completion->set_output(*output);
                     completion->set_final(o->final);
                   });
  });
}

void AddRelease(CLI::App& group, Session& session) {
  auto tokens = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      group.add_subcommand("release", "give tokens back without a result; the events succeed");
  command->add_option("tokens", *tokens, kTokensHelp)->required();
  command->callback([tokens, &session] {
    CallWithTokens(session, *tokens, &TokenStub::ReleaseTokens,
                   [](const std::string& token, v1::ReleaseTokensRequest* request) {
                     request->add_tokens(token);
                   });
  });
}

void AddExtend(CLI::App& group, Session& session) {
  struct Options {
    std::vector<std::string> tokens;
    std::string hold;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      group.add_subcommand("extend", "restart the hold time, because the work goes on");
  command->add_option("tokens", o->tokens, kTokensHelp)->required();
  command->add_option("--hold", o->hold, "hold time from now, e.g. 10m; default: the policy's");
  command->callback([o, &session] {
    google::protobuf::Duration hold;
    if (!o->hold.empty()) {
      auto parsed = ParseDurationFlag("--hold", o->hold);
      if (!parsed.ok()) return session.FailUsage(parsed.status().message());
      hold = *parsed;
    }
    CallWithTokens(session, o->tokens, &TokenStub::ExtendTokens,
                   [&](const std::string& token, v1::ExtendTokensRequest* request) {
                     if (!o->hold.empty()) *request->mutable_hold() = hold;
                     request->add_tokens(token);
                   });
  });
}

}  // namespace

void AddTokenCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("token", "tokens: give back the tokens of events");
  group->require_subcommand(1);
  group->fallthrough();
  AddComplete(*group, session);
  AddRelease(*group, session);
  AddExtend(*group, session);
}

}  // namespace escapement::escctl
