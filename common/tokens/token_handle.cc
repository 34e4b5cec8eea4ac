#include "common/tokens/token_handle.h"

// OpenSSL 3 deprecates the functions that hash into a plain struct. They are used here because such
// a struct can be copied without an allocation. A handle then costs the hashing of two blocks.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/base/key_codec.h"
#include "common/base/log.h"

namespace escapement {
namespace {

constexpr char kFormat = 1;
constexpr size_t kNameBytes = 1 + 2 + Uid::kBytes + 8 + 8 + 8;
constexpr size_t kMacBytes = 16;
constexpr size_t kHandleBytes = kNameBytes + kMacBytes;
static_assert((kHandleBytes * 8 + 5) / 6 == kTokenChars);
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
    client_.MultiGet({{kv::ColumnFamily::kMeta, std::string(kTokenKeyKey)}}, executor_,
                     [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                       self->OnRead(std::move(result));
                     });
  }

 private:
  void OnRead(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return Later();
    const std::optional<std::string>& key = result->values[0];
    if (!key.has_value()) return Put();
    if (key->size() != kTokenKeyBytes) {
      Log(LogLevel::kError, "tokens.handle", "the key of tokens cannot be read",
          {{"bytes", key->size()}});
      return Later();
    }
    done_(std::make_shared<const TokenMint>(*key));
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

TokenMint::TokenMint(absl::string_view key) : prepared_(std::make_unique<const Prepared>(key)) {}
TokenMint::~TokenMint() = default;

std::string TokenMint::Mac(absl::string_view message) const {
  const Digest mac = prepared_->Mac(message);
  return std::string(reinterpret_cast<const char*>(mac.data()), mac.size());
}

std::string TokenMint::Handle(const TokenName& token) const {
  std::string bytes;
  bytes.reserve(kHandleBytes);
  bytes.push_back(kFormat);
  AppendBigEndian<uint16_t>(&bytes, token.grant.policy_shard);
  bytes.append(token.grant.policy.bytes().data(), Uid::kBytes);
  AppendBigEndian<uint64_t>(&bytes, token.grant.epoch);
  AppendBigEndian<uint64_t>(&bytes, token.grant.number);
  AppendBigEndian<uint64_t>(&bytes, token.index);
  const Digest mac = prepared_->Mac(bytes);
  bytes.append(reinterpret_cast<const char*>(mac.data()), kMacBytes);
  return absl::WebSafeBase64Escape(bytes);
}

std::optional<TokenName> TokenMint::Read(absl::string_view handle) const {
  // Each handle has one spelling: this length, and no bits after the last byte.
  if (handle.size() != kTokenChars || kLastChars.find(handle.back()) == absl::string_view::npos) {
    return std::nullopt;
  }
  std::string decoded;
  if (!absl::WebSafeBase64Unescape(handle, &decoded) || decoded.size() != kHandleBytes)
    return std::nullopt;
  absl::string_view bytes = decoded;
  const Digest mac = prepared_->Mac(bytes.substr(0, kNameBytes));
  if (CRYPTO_memcmp(mac.data(), bytes.data() + kNameBytes, kMacBytes) != 0) return std::nullopt;
  if (bytes[0] != kFormat) return std::nullopt;
  TokenName token;
  bytes.remove_prefix(1);
  token.grant.policy_shard = ReadBigEndian<uint16_t>(bytes);
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

}  // namespace escapement
