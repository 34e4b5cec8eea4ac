#include <set>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/tokens/token_batch.h"
#include "gtest/gtest.h"

namespace escapement {
namespace token_handle_test {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

TokenName SomeToken() {
  return {.grant = {.policy_shard = 0x02dc,
                    .policy = Uid::FromHalves(0x0123456789abcdef, 0xfedcba9876543210),
                    .epoch = 0x8000000000000001,
                    .number = 7},
          .index = 0xffffffffffffffff};
}

std::string Key(char c) { return std::string(kTokenKeyBytes, c); }

// RFC 4231, sections 4.2, 4.3 and 4.4. The keys are no longer than ours and are filled up with
// zeros, as HMAC does.
TEST(TokenMintTest, MacMatchesRfc4231) {
  const auto mac_of = [](const std::string& key, const std::string& data) {
    return absl::BytesToHexString(TokenMint(key).Mac(data));
  };
  EXPECT_EQ(mac_of(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(mac_of("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(mac_of(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
}

TEST(TokenMintTest, AHandleIsReadBackAsItWasMade) {
  const TokenMint mint(Key('k'));
  const std::string handle = mint.Handle(SomeToken());
  EXPECT_EQ(handle.size(), kTokenChars);
  EXPECT_EQ(handle.find_first_not_of(kAlphabet), std::string::npos);
  EXPECT_EQ(mint.Read(handle), SomeToken());
  EXPECT_EQ(mint.Read(mint.Handle(TokenName())), TokenName());
}

// Consumers keep handles for days, so their format must not change.
TEST(TokenMintTest, HandleFormatIsUnchanged) {
  const std::string handle = TokenMint(Key('k')).Handle(SomeToken());
  std::string bytes;
  ASSERT_TRUE(absl::WebSafeBase64Unescape(handle, &bytes));
  EXPECT_EQ(absl::BytesToHexString(bytes.substr(0, 43)),
            "0102dc0123456789abcdeffedcba98765432108000000000000001"
            "0000000000000007ffffffffffffffff");
  EXPECT_EQ(bytes.substr(43), TokenMint(Key('k')).Mac(bytes.substr(0, 43)).substr(0, 16));
}

TEST(TokenMintTest, AHandleNamesItsCell) {
  const std::string of_cell_0 = TokenMint(Key('k')).Handle(SomeToken());
  const std::string of_cell_63 = TokenMint(Key('k'), 63).Handle(SomeToken());
  EXPECT_EQ(CellOfToken(of_cell_0), 0u);
  EXPECT_EQ(CellOfToken(of_cell_63), 63u);
  EXPECT_EQ(CellOfToken("something else"), std::nullopt);
  // All cells have one key, so each of them can read the tokens of the others.
  EXPECT_EQ(TokenMint(Key('k'), 1).Read(of_cell_63), SomeToken());
  std::string forged;
  ASSERT_TRUE(absl::WebSafeBase64Unescape(of_cell_63, &forged));
  forged[1] = '\2';
  EXPECT_EQ(TokenMint(Key('k')).Read(absl::WebSafeBase64Escape(forged)), std::nullopt);
}

TEST(TokenMintTest, DifferentTokensHaveDifferentHandles) {
  const TokenMint mint(Key('k'));
  std::vector<TokenName> tokens(6, SomeToken());
  tokens[1].grant.policy_shard ^= 1;
  tokens[2].grant.policy = Uid::FromHalves(1, 2);
  tokens[3].grant.epoch += 1;
  tokens[4].grant.number += 1;
  tokens[5].index = 0;
  std::set<std::string> handles;
  for (const TokenName& token : tokens) handles.insert(mint.Handle(token));
  EXPECT_EQ(handles.size(), tokens.size());
}

TEST(TokenMintTest, EveryForgedBitIsDetected) {
  const TokenMint mint(Key('k'));
  std::string bytes;
  ASSERT_TRUE(absl::WebSafeBase64Unescape(mint.Handle(SomeToken()), &bytes));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string forged = bytes;
    forged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_EQ(mint.Read(absl::WebSafeBase64Escape(forged)), std::nullopt) << bit;
  }
}

TEST(TokenMintTest, OtherCharactersAreRefusedEvenForEqualBytes) {
  const TokenMint mint(Key('k'));
  const std::string handle = mint.Handle(SomeToken());
  for (size_t i = 0; i < handle.size(); ++i) {
    for (const char c : absl::string_view(kAlphabet)) {
      if (c == handle[i]) continue;
      std::string other = handle;
      other[i] = c;
      EXPECT_EQ(mint.Read(other), std::nullopt) << i << " " << c;
    }
  }
}

TEST(TokenMintTest, MalformedHandleIsRefused) {
  const TokenMint mint(Key('k'));
  const std::string handle = mint.Handle(SomeToken());
  for (size_t size = 0; size < handle.size(); ++size)
    EXPECT_EQ(mint.Read(handle.substr(0, size)), std::nullopt);
  EXPECT_EQ(mint.Read(handle + "A"), std::nullopt);
  EXPECT_EQ(mint.Read(handle + "="), std::nullopt);
  EXPECT_EQ(mint.Read(handle.substr(0, 78) + "="), std::nullopt);
  EXPECT_EQ(mint.Read(handle.substr(0, 78) + " "), std::nullopt);
  EXPECT_EQ(mint.Read(std::string(79, '\0')), std::nullopt);
  EXPECT_EQ(mint.Read(std::string(79, '\xff')), std::nullopt);
  EXPECT_EQ(mint.Read(std::string(79, 'A')), std::nullopt);
  EXPECT_EQ(mint.Read(std::string(1 << 20, 'A')), std::nullopt);
}

TEST(TokenMintTest, HandlesOfAnotherKeyAreRefused) {
  EXPECT_EQ(TokenMint(Key('l')).Read(TokenMint(Key('k')).Handle(SomeToken())), std::nullopt);
}

TEST(TokenKeyTest, FreshKeysDiffer) {
  EXPECT_EQ(FreshTokenKey().size(), kTokenKeyBytes);
  EXPECT_NE(FreshTokenKey(), FreshTokenKey());
}

class LoadTokenMintTest : public ::testing::Test {
 protected:
  LoadTokenMintTest() : store_(runtime_, {}), executor_(runtime_.NewExecutor("test")) {}

  std::unique_ptr<kv::KvClient> NewClient() {
    return std::make_unique<kv::KvClient>(store_, runtime_, kv::KvClient::Options());
  }
  void Put(const std::string& key) {
    bool done = false;
    kv::Commit commit;
    commit.groups.push_back({.mutations = {{.key = std::string(kTokenKeyKey), .value = key}}});
    const auto client = NewClient();
    client->CommitAsync(std::move(commit), executor_,
                        [&](absl::StatusOr<kv::CommitResult> result) { done = result.ok(); });
    runtime_.RunUntil([&] { return done; }, absl::Seconds(5));
    ASSERT_TRUE(done);
  }

  sim::SimRuntime runtime_{1};
  kv::MemKvStore store_;
  std::shared_ptr<Executor> executor_;
};

TEST_F(LoadTokenMintTest, ProcessesThatStartAtOnceAgreeOnOneKey) {
  std::vector<std::unique_ptr<kv::KvClient>> clients;
  std::vector<std::shared_ptr<const TokenMint>> mints;
  for (char c = 'a'; c < 'e'; ++c) {
    clients.push_back(NewClient());
    LoadTokenMint(*clients.back(), executor_, Key(c),
                  [&](std::shared_ptr<const TokenMint> mint) { mints.push_back(mint); });
  }
  ASSERT_TRUE(runtime_.RunUntil([&] { return mints.size() == 4; }, absl::Seconds(5)));
  const std::string handle = mints[0]->Handle(SomeToken());
  for (const auto& mint : mints) EXPECT_EQ(mint->Read(handle), SomeToken());
  int makers = 0;
  for (char c = 'a'; c < 'e'; ++c) makers += TokenMint(Key(c)).Read(handle).has_value();
  EXPECT_EQ(makers, 1);
}

TEST_F(LoadTokenMintTest, OtherCellsWaitForTheKeyOfCellZero) {
  kv::MemKvStore::Options options;
  options.layout.cell = 5;
  kv::MemKvStore store(runtime_, options);
  kv::KvClient client(store, runtime_, {});
  std::shared_ptr<const TokenMint> mint;
  LoadTokenMint(client, executor_, Key('y'), [&](auto loaded) { mint = loaded; });
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(mint, nullptr);
  kv::Commit commit;
  commit.groups.emplace_back().mutations.push_back(
      {.cf = kv::ColumnFamily::kMeta, .key = std::string(kTokenKeyKey), .value = Key('x')});
  client.CommitAsync(std::move(commit), executor_, [](const auto&) {});
  runtime_.AdvanceBy(absl::Seconds(2));
  ASSERT_NE(mint, nullptr);
  EXPECT_EQ(mint->Handle(SomeToken()), TokenMint(Key('x'), 5).Handle(SomeToken()));
}

TEST_F(LoadTokenMintTest, ExistingKeyIsKept) {
  Put(Key('x'));
  const auto client = NewClient();
  std::shared_ptr<const TokenMint> mint;
  LoadTokenMint(*client, executor_, Key('y'), [&](auto loaded) { mint = loaded; });
  ASSERT_TRUE(runtime_.RunUntil([&] { return mint != nullptr; }, absl::Seconds(5)));
  EXPECT_EQ(mint->Handle(SomeToken()), TokenMint(Key('x')).Handle(SomeToken()));
}

TEST_F(LoadTokenMintTest, DamagedKeyIsNeverReplaced) {
  Put("short");
  const auto client = NewClient();
  std::shared_ptr<const TokenMint> mint;
  LoadTokenMint(*client, executor_, Key('y'), [&](auto loaded) { mint = loaded; });
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(mint, nullptr);
  Put(Key('x'));
  ASSERT_TRUE(runtime_.RunUntil([&] { return mint != nullptr; }, absl::Seconds(5)));
  EXPECT_EQ(mint->Handle(SomeToken()), TokenMint(Key('x')).Handle(SomeToken()));
}

TEST_F(LoadTokenMintTest, LoadWaitsForAStoreThatIsDown) {
  store_.Crash(kv::MemKvStore::Unsynced::kLost);
  const auto client = NewClient();
  std::shared_ptr<const TokenMint> mint;
  LoadTokenMint(*client, executor_, Key('y'), [&](auto loaded) { mint = loaded; });
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(mint, nullptr);
  store_.Restart();
  EXPECT_TRUE(runtime_.RunUntil([&] { return mint != nullptr; }, absl::Seconds(10)));
}

}  // namespace token_handle_test
}  // namespace escapement
