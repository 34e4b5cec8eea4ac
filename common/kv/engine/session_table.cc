#include "common/kv/engine/session_table.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/layout.h"

namespace escapement::kv {
namespace {

constexpr size_t kAnswerHeadBytes = 8 + 1 + 8 + 8 + 2 + 2;

std::string SessionKey(uint64_t session) {
  std::string key(kSessionPrefix);
  AppendBigEndian<uint64_t>(&key, session);
  return key;
}

std::string SlotKey(uint64_t session, uint64_t slot) {
  std::string key = SessionKey(session);
  key.push_back(static_cast<char>(slot));
  return key;
}

}  // namespace

std::string EncodeAnswer(uint64_t number, const absl::StatusOr<CommitResult>& answer) {
  static const CommitResult kEmpty;
  const CommitResult& result = answer.ok() ? *answer : kEmpty;
  size_t failed = 0;
  for (const Verdict& verdict : result.verdicts) failed += verdict.applied ? 0 : 1;
  std::string out;
  out.reserve(kAnswerHeadBytes + 4 * failed + answer.status().message().size());
  AppendBigEndian<uint64_t>(&out, number);
  AppendBigEndian<uint8_t>(&out, static_cast<uint8_t>(answer.status().code()));
  AppendBigEndian<uint64_t>(&out, result.seq);
  AppendBigEndian<uint64_t>(&out, static_cast<uint64_t>(ToMicros(result.store_time)));
  AppendBigEndian<uint16_t>(&out, static_cast<uint16_t>(result.verdicts.size()));
  AppendBigEndian<uint16_t>(&out, static_cast<uint16_t>(failed));
  for (size_t i = 0; failed > 0 && i < result.verdicts.size(); ++i) {
    if (result.verdicts[i].applied) continue;
    AppendBigEndian<uint16_t>(&out, static_cast<uint16_t>(i));
    AppendBigEndian<uint16_t>(&out, result.verdicts[i].failed_condition);
  }
  const absl::string_view message = answer.status().message();
  out.append(message.data(), message.size());
  return out;
}

absl::StatusOr<CommitResult> DecodeAnswer(absl::string_view bytes, uint64_t& number) {
  if (bytes.size() < kAnswerHeadBytes)
    return absl::DataLossError("a session's answer is too short");
  number = ReadBigEndian<uint64_t>(bytes);
  const auto code = static_cast<absl::StatusCode>(bytes[8]);
  CommitResult result;
  result.seq = ReadBigEndian<uint64_t>(bytes.substr(9));
  result.store_time = FromMicros(static_cast<int64_t>(ReadBigEndian<uint64_t>(bytes.substr(17))));
  result.verdicts.assign(ReadBigEndian<uint16_t>(bytes.substr(25)), Verdict{true, Verdict::kNone});
  const size_t failed = ReadBigEndian<uint16_t>(bytes.substr(27));
  bytes.remove_prefix(kAnswerHeadBytes);
  if (bytes.size() < 4 * failed) return absl::DataLossError("a session's answer is too short");
  for (size_t i = 0; i < failed; ++i, bytes.remove_prefix(4)) {
    const size_t index = ReadBigEndian<uint16_t>(bytes);
    if (index >= result.verdicts.size())
      return absl::DataLossError("a session's answer is malformed");
    result.verdicts[index] = Verdict{false, ReadBigEndian<uint16_t>(bytes.substr(2))};
  }
  if (code != absl::StatusCode::kOk) return absl::Status(code, bytes);
  return result;
}

void SessionTable::Load(BaseState& base) {
  base.ForEach(
      ColumnFamily::kMeta, kSessionPrefix, kSessionPrefixEnd,
      [this](absl::string_view key, absl::string_view value) {
        const size_t head = kSessionPrefix.size() + 8;
        if (key.size() < head) return true;
        Session& session = sessions_[ReadBigEndian<uint64_t>(key.substr(kSessionPrefix.size()))];
        if (key.size() == head + 1 && value.size() >= kAnswerHeadBytes) {
          Slot& slot = session.slots[static_cast<unsigned char>(key[head]) % kSessionWindow];
          slot.number = ReadBigEndian<uint64_t>(value);
          slot.answer = std::string(value);
        }
        return true;
      });
}

uint64_t SessionTable::Open(WriteSink& sink) {
  while (sessions_.size() >= sessions_max_) {
    auto oldest = sessions_.begin();
    for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
      if (it->second.last_used < oldest->second.last_used) oldest = it;
    }
    Forget(oldest->first, sink);
  }
  const uint64_t session = next_session_++;
  sessions_[session].last_used = ++uses_;
  sink.Put(ColumnFamily::kMeta, SessionKey(session), "");
  return session;
}

void SessionTable::Forget(uint64_t session, WriteSink& sink) {
  sink.Delete(ColumnFamily::kMeta, SessionKey(session));
  for (uint64_t slot = 0; slot < kSessionWindow; ++slot) {
    if (sessions_[session].slots[slot].number != 0)
      sink.Delete(ColumnFamily::kMeta, SlotKey(session, slot));
  }
  sessions_.erase(session);
}

SessionTable::Admission SessionTable::Admit(uint64_t session, uint64_t number,
                                            absl::string_view& answer) {
  auto it = sessions_.find(session);
  if (it == sessions_.end() || number == 0) return Admission::kRefused;
  it->second.last_used = ++uses_;
  const Slot& slot = it->second.slots[number % kSessionWindow];
  if (number > slot.number) return Admission::kNew;
  if (number < slot.number) return Admission::kRefused;
  answer = slot.answer;
  return Admission::kAnswered;
}

void SessionTable::Record(uint64_t session, uint64_t number, std::string answer, WriteSink* sink) {
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  if (sink != nullptr)
    sink->Put(ColumnFamily::kMeta, SlotKey(session, number % kSessionWindow), answer);
  it->second.slots[number % kSessionWindow] = Slot{number, std::move(answer)};
}

}  // namespace escapement::kv
