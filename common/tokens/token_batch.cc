#include "common/tokens/token_batch.h"

// OpenSSL 3 deprecates the functions that hash into a plain struct. They are used here because such
// a struct can be copied without an allocation. A handle then costs the hashing of two blocks.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/kv/layout.h"
#include "common/status/errors.h"
#include "common/storage/waiting_table.h"
#include "common/tokens/token_door.h"

// OpenSSL 3 deprecates the functions that hash into a plain struct. They are used here because such
// a struct can be copied without an allocation. A handle then costs the hashing of two blocks.
#define OPENSSL_SUPPRESS_DEPRECATED

namespace escapement {

namespace {

constexpr char kFormat = 1;
constexpr size_t kNameBytes = 1 + 2 + Uid::kBytes + 8 + 8 + 8;
constexpr size_t kMacBytes = 16;
constexpr size_t kHandleBytes = kNameBytes + kMacBytes;
static_assert((kHandleBytes * 8 + 5) / 6 == kTokenChars);
// The policy shard has the lower bits of its 16, and the cell the upper ones.
constexpr int kShardBits = 10;
static_assert(1u << kShardBits == kv::kLayoutNumberMax && kv::kCellsMax << kShardBits == 1u << 16);
// The last character encodes 4 bits. These are the characters whose other 2 bits are zero.
constexpr absl::string_view kLastChars = "AEIMQUYcgkosw048";

constexpr absl::Duration kKeyRetryEvery = absl::Seconds(1);

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

SHA256_CTX HashedBlock(absl::string_view key, unsigned char pad) {
  std::array<unsigned char, SHA256_CBLOCK> block;
  block.fill(pad);
  for (size_t i = 0; i < key.size(); ++i) block[i] ^= static_cast<unsigned char>(key[i]);
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, block.data(), block.size());
  return context;
}

// Reads the key until there is one, and puts `fresh_key` if there is none. The callback of the
// running call holds it.
class TokenKeyReader : public std::enable_shared_from_this<TokenKeyReader> {
 public:
  using Done = absl::AnyInvocable<void(std::shared_ptr<const TokenMint>)>;

  TokenKeyReader(kv::KvClient& client, std::shared_ptr<Executor> executor, std::string fresh_key,
                 Done done)
      : client_(client),
        executor_(std::move(executor)),
        fresh_key_(std::move(fresh_key)),
        done_(std::move(done)) {}

  void Read() {
    client_.MultiGet({{kv::ColumnFamily::kMeta, std::string(kTokenKeyKey)},
                      {kv::ColumnFamily::kMeta, std::string(kv::kLayoutKey)}},
                     executor_, [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                       self->OnRead(std::move(result));
                     });
  }

 private:
  void OnRead(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return Later();
    const std::optional<std::string>& key = result->values[0];
    const auto layout = kv::DecodeLayout(result->values[1].value_or(""));
    if (!layout.ok()) return Later();
    if (!key.has_value()) return layout->cell == 0 ? Put() : Later();
    if (key->size() != kTokenKeyBytes) {
      Log(LogLevel::kError, "tokens.handle", "the key of tokens cannot be read",
          {{"bytes", key->size()}});
      return Later();
    }
    done_(std::make_shared<const TokenMint>(*key, layout->cell));
  }

  // Applied or not, the next read shows which key exists.
  void Put() {
    kv::Group group;
    group.conditions.push_back({.cf = kv::ColumnFamily::kMeta,
                                .key = std::string(kTokenKeyKey),
                                .kind = kv::Condition::Kind::kAbsent});
    group.mutations.push_back(
        {.cf = kv::ColumnFamily::kMeta, .key = std::string(kTokenKeyKey), .value = fresh_key_});
    kv::Commit commit;
    commit.groups.push_back(std::move(group));
    client_.CommitAsync(std::move(commit), executor_,
                        [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
                          result.ok() ? self->Read() : self->Later();
                        });
  }

  void Later() {
    executor_->PostAfter(kKeyRetryEvery, [self = shared_from_this()] { self->Read(); });
  }

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  const std::string fresh_key_;
  Done done_;
};

}  // namespace

struct TokenMint::Prepared {
  explicit Prepared(absl::string_view key)
      : inner(HashedBlock(key, 0x36)), outer(HashedBlock(key, 0x5c)) {}

  // HMAC-SHA-256.
  Digest Mac(absl::string_view message) const {
    Digest digest;
    SHA256_CTX context = inner;
    SHA256_Update(&context, message.data(), message.size());
    SHA256_Final(digest.data(), &context);
    context = outer;
    SHA256_Update(&context, digest.data(), digest.size());
    SHA256_Final(digest.data(), &context);
    return digest;
  }

  const SHA256_CTX inner;
  const SHA256_CTX outer;
};

TokenMint::TokenMint(absl::string_view key, uint32_t cell)
    : prepared_(std::make_unique<const Prepared>(key)), cell_(cell) {}
TokenMint::~TokenMint() = default;

std::string TokenMint::Mac(absl::string_view message) const {
  const Digest mac = prepared_->Mac(message);
  return std::string(reinterpret_cast<const char*>(mac.data()), mac.size());
}

std::string TokenMint::Handle(const TokenName& token) const {
  std::string bytes;
  bytes.reserve(kHandleBytes);
  bytes.push_back(kFormat);
  AppendBigEndian<uint16_t>(&bytes,
                            static_cast<uint16_t>(cell_ << kShardBits | token.grant.policy_shard));
  bytes.append(token.grant.policy.bytes().data(), Uid::kBytes);
  AppendBigEndian<uint64_t>(&bytes, token.grant.epoch);
  AppendBigEndian<uint64_t>(&bytes, token.grant.number);
  AppendBigEndian<uint64_t>(&bytes, token.index);
  const Digest mac = prepared_->Mac(bytes);
  bytes.append(reinterpret_cast<const char*>(mac.data()), kMacBytes);
  return absl::WebSafeBase64Escape(bytes);
}

namespace {

// The bytes of a handle; nullopt if it cannot be one. Each handle has one spelling: this length,
// and no bits after the last byte.
std::optional<std::string> Decoded(absl::string_view handle) {
  std::string decoded;
  if (handle.size() != kTokenChars || kLastChars.find(handle.back()) == absl::string_view::npos ||
      !absl::WebSafeBase64Unescape(handle, &decoded) || decoded.size() != kHandleBytes)
    return std::nullopt;
  return decoded;
}

}  // namespace

std::optional<uint32_t> CellOfToken(absl::string_view handle) {
  const std::optional<std::string> bytes = Decoded(handle);
  if (!bytes.has_value()) return std::nullopt;
  return ReadBigEndian<uint16_t>(absl::string_view(*bytes).substr(1)) >> kShardBits;
}

std::optional<TokenName> TokenMint::Read(absl::string_view handle, uint32_t* cell) const {
  const std::optional<std::string> decoded = Decoded(handle);
  if (!decoded.has_value()) return std::nullopt;
  absl::string_view bytes = *decoded;
  const Digest mac = prepared_->Mac(bytes.substr(0, kNameBytes));
  if (CRYPTO_memcmp(mac.data(), bytes.data() + kNameBytes, kMacBytes) != 0) return std::nullopt;
  if (bytes[0] != kFormat) return std::nullopt;
  TokenName token;
  bytes.remove_prefix(1);
  const uint16_t cell_and_shard = ReadBigEndian<uint16_t>(bytes);
  token.grant.policy_shard = cell_and_shard & ((1u << kShardBits) - 1);
  if (cell != nullptr) *cell = cell_and_shard >> kShardBits;
  bytes.remove_prefix(2);
  token.grant.policy = Uid::FromBytes(bytes.substr(0, Uid::kBytes));
  bytes.remove_prefix(Uid::kBytes);
  token.grant.epoch = ReadBigEndian<uint64_t>(bytes);
  token.grant.number = ReadBigEndian<uint64_t>(bytes.substr(8));
  token.index = ReadBigEndian<uint64_t>(bytes.substr(16));
  return token;
}

void LoadTokenMint(kv::KvClient& client, std::shared_ptr<Executor> executor, std::string fresh_key,
                   absl::AnyInvocable<void(std::shared_ptr<const TokenMint>)> done) {
  std::make_shared<TokenKeyReader>(client, std::move(executor), std::move(fresh_key),
                                   std::move(done))
      ->Read();
}

std::string FreshTokenKey() {
  std::string key(kTokenKeyBytes, '\0');
  // Without random bytes there is no key; a guessable key would be worse than none.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1)
    std::abort();
  return key;
}

namespace {

using Report = storage::v1::GrantReportRecord;

constexpr absl::string_view kNoReason = "failed by the consumer";
constexpr size_t kViolationsMax = 100;
// Bytes of an entry with its result and its share of the records made from it, without the output.
constexpr size_t kEntryBytes = 320;

void CheckCount(int count, absl::string_view field, FieldViolations& violations) {
  if (count == 0) violations.Add(field, "must not be empty");
  if (count > kTokensMax) violations.Add(field, absl::StrCat("must hold at most ", kTokensMax));
}

void CheckHandles(const google::protobuf::RepeatedPtrField<std::string>& tokens,
                  FieldViolations& violations) {
  CheckCount(tokens.size(), "tokens", violations);
  if (!violations.empty()) return;
  for (int i = 0; i < tokens.size() && violations.size() < kViolationsMax; ++i) {
    if (tokens[i].empty()) violations.Add(absl::StrCat("tokens[", i, "]"), "is required");
  }
}

Report::Kind KindOf(const v1::TokenCompletion& completion) {
  if (completion.outcome() == v1::TokenCompletion::SUCCEEDED) return Report::COMPLETED;
  return completion.final() ? Report::COMPLETION_FAILED_FINALLY : Report::COMPLETION_FAILED;
}

// Collects entries, then orders them.
class BatchReader {
 public:
  BatchReader(const TokenMint& mint, size_t tokens) : mint_(mint) {
    batch_.results.assign(tokens, v1::TokenResult::STATUS_UNSPECIFIED);
    batch_.entries.reserve(tokens);
    batch_.bytes = tokens * kEntryBytes;
  }

  void Add(absl::string_view handle, TokenEntry entry) {
    uint32_t cell = 0;
    const std::optional<TokenName> token = mint_.Read(handle, &cell);
    entry.position = next_position_++;
    if (!token.has_value()) {
      batch_.results[entry.position] = v1::TokenResult::INVALID;
      return;
    }
    if (cell != mint_.cell()) batch_.other_cell = cell;
    entry.token = *token;
    batch_.bytes += entry.output.size();
    batch_.entries.push_back(std::move(entry));
  }

  TokenBatch Take() {
    std::sort(batch_.entries.begin(), batch_.entries.end(),
              [](const TokenEntry& a, const TokenEntry& b) {
                return std::tie(a.token.grant, a.token.index, a.position) <
                       std::tie(b.token.grant, b.token.index, b.position);
              });
    DropRepeats();
    return std::move(batch_);
  }

 private:
  void DropRepeats() {
    std::vector<TokenEntry>& entries = batch_.entries;
    size_t kept = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (kept > 0 && entries[kept - 1].token == entries[i].token) {
        if (entries[i].kind == Report::EXTENDED) {
          batch_.repeats.push_back(
              {.position = entries[i].position, .first = entries[kept - 1].position});
        } else {
          batch_.results[entries[i].position] = v1::TokenResult::NOT_HELD;
        }
        continue;
      }
      if (kept != i) entries[kept] = std::move(entries[i]);
      ++kept;
    }
    entries.resize(kept);
  }

  const TokenMint& mint_;
  TokenBatch batch_;
  uint32_t next_position_ = 0;
};

}  // namespace

absl::Status CheckTokens(const v1::CompleteTokensRequest& request) {
  FieldViolations violations;
  CheckCount(request.completions_size(), "completions", violations);
  if (!violations.empty()) return violations.ToStatus();
  size_t output_bytes = 0;
  for (int i = 0; i < request.completions_size() && violations.size() < kViolationsMax; ++i) {
    const v1::TokenCompletion& completion = request.completions(i);
    const auto add = [&](absl::string_view field, absl::string_view description) {
      violations.Add(absl::StrCat("completions[", i, "].", field), description);
    };
    if (completion.token().empty()) add("token", "is required");
    if (completion.outcome() != v1::TokenCompletion::SUCCEEDED &&
        completion.outcome() != v1::TokenCompletion::FAILED) {
      add("outcome", "must be SUCCEEDED or FAILED");
    }
    if (completion.output().size() > kTokenOutputBytesMax)
      add("output", absl::StrCat("must have at most ", kTokenOutputBytesMax, " bytes"));
    output_bytes += completion.output().size();
  }
  if (output_bytes > kTokenOutputsBytesMax) {
    violations.Add("completions", absl::StrCat("outputs must have at most ", kTokenOutputsBytesMax,
                                               " bytes together"));
  }
  return violations.ToStatus();
}

absl::Status CheckTokens(const v1::ReleaseTokensRequest& request) {
  FieldViolations violations;
  CheckHandles(request.tokens(), violations);
  return violations.ToStatus();
}

absl::Status CheckTokens(const v1::ExtendTokensRequest& request) {
  FieldViolations violations;
  CheckHandles(request.tokens(), violations);
  if (request.has_hold()) {
    const std::optional<absl::Duration> hold = ToDuration(request.hold());
    if (!hold.has_value() || *hold < kTokenHoldMin || *hold > kTokenHoldMax)
      violations.Add("hold", "must be from 1s to 30 days");
  }
  return violations.ToStatus();
}

TokenBatch ReadTokens(const TokenMint& mint, const v1::CompleteTokensRequest& request) {
  BatchReader reader(mint, request.completions_size());
  for (const v1::TokenCompletion& completion : request.completions())
    reader.Add(completion.token(), {.kind = KindOf(completion), .output = completion.output()});
  return reader.Take();
}

TokenBatch ReadTokens(const TokenMint& mint, const v1::ReleaseTokensRequest& request) {
  BatchReader reader(mint, request.tokens_size());
  for (const std::string& token : request.tokens()) reader.Add(token, {.kind = Report::RELEASED});
  return reader.Take();
}

TokenBatch ReadTokens(const TokenMint& mint, const v1::ExtendTokensRequest& request) {
  BatchReader reader(mint, request.tokens_size());
  const int64_t hold_micros = MicrosUp(*ToDuration(request.hold()));
  for (const std::string& token : request.tokens())
    reader.Add(token, {.kind = Report::EXTENDED, .hold_micros = hold_micros});
  return reader.Take();
}

Report::Entry ReportEntry(TokenEntry entry) {
  Report::Entry report;
  report.set_policy_uid(entry.token.grant.policy.bytes().data(), Uid::kBytes);
  report.set_epoch(entry.token.grant.epoch);
  report.set_number(entry.token.grant.number);
  report.set_kind(entry.kind);
  report.set_first(entry.token.index);
  report.set_count(1);
  report.set_hold_micros(entry.hold_micros);
  if (entry.kind == Report::COMPLETION_FAILED || entry.kind == Report::COMPLETION_FAILED_FINALLY) {
    report.set_reason(entry.output.empty() ? std::string(kNoReason)
                                           : CleanText(entry.output, kTokenReasonBytesMax));
  }
  report.set_output(std::move(entry.output));
  return report;
}

std::vector<kv::Mutation> ReportRows(std::vector<TokenEntry> entries, absl::Time time, uint64_t a,
                                     uint64_t b) {
  std::vector<kv::Mutation> rows;
  Report row;
  size_t row_bytes = 0;
  ReportKey key = {.origin = kReportFromDoor, .a = a, .b = b};
  const auto end_row = [&] {
    if (row.entries_size() == 0) return;
    rows.push_back({.cf = kv::ColumnFamily::kWaiting,
                    .key = EncodeReportKey(key),
                    .value = row.SerializeAsString()});
    ++key.c;
    row.Clear();
    row_bytes = 0;
  };
  for (TokenEntry& entry : entries) {
    if (entry.token.grant.policy_shard != key.policy_shard ||
        row.entries_size() >= kReportRowEntriesMax || row_bytes >= kReportRowBytesMax) {
      end_row();
    }
    key.policy_shard = entry.token.grant.policy_shard;
    Report::Entry& report = *row.add_entries() = ReportEntry(std::move(entry));
    report.set_time_micros(ToMicros(time));
    row_bytes += report.ByteSizeLong();
  }
  end_row();
  return rows;
}

bool Holds(const storage::v1::GrantRecord& grant, uint64_t index) {
  return std::any_of(grant.holders().begin(), grant.holders().end(), [index](const auto& holders) {
    return index >= holders.first() && index - holders.first() < holders.count();
  });
}

}  // namespace escapement
