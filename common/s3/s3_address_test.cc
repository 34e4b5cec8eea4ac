#include "common/s3/s3_address.h"

#include <string>

#include "gtest/gtest.h"

namespace escapement {
namespace s3_address_test {

TEST(S3AddressTest, ReadsBucketAndKey) {
  for (const char* text : {"s3://my.bucket/a/b c", "s3://my.bucket//a/b c/"}) {
    const auto address = ParseS3Address(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->bucket, "my.bucket");
    EXPECT_EQ(address->key, "a/b c");
  }
  for (const char* text : {"s3://bucket", "s3://bucket/"}) EXPECT_EQ(ParseS3Address(text)->key, "");
  EXPECT_TRUE(IsS3Address("s3://x"));
  EXPECT_FALSE(IsS3Address("/s3://x"));
}

TEST(S3AddressTest, RefusesOtherTexts) {
  for (const std::string text : {"s3:/bucket", "http://bucket/a", "s3://", "s3://ab",
                                 "s3://a_b@c/d", "s3://bucket?x=1/a", "s3://bucket/a\nb"}) {
    EXPECT_FALSE(ParseS3Address(text).ok()) << text;
  }
  EXPECT_FALSE(ParseS3Address("s3://bucket/" + std::string(901, 'k')).ok());
}

TEST(S3AddressTest, BucketsOfAwsAreHosts) {
  auto place = S3PlaceOf("backups", "eu-central-1", "");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->origin, "https://backups.s3.eu-central-1.amazonaws.com");
  EXPECT_EQ(place->path, "");
  EXPECT_EQ(place->region, "eu-central-1");
  EXPECT_EQ(S3PlaceOf("backups", "cn-north-1", "")->origin,
            "https://backups.s3.cn-north-1.amazonaws.com.cn");
  place = S3PlaceOf("my.backups", "eu-central-1", "");
  EXPECT_EQ(place->origin, "https://s3.eu-central-1.amazonaws.com");
  EXPECT_EQ(place->path, "/my.backups");
  EXPECT_FALSE(S3PlaceOf("backups", "", "").ok());
  EXPECT_FALSE(S3PlaceOf("backups", "eu/central", "").ok());
}

TEST(S3AddressTest, EndpointsHaveTheBucketInThePathOrTheHost) {
  auto place = S3PlaceOf("backups", "", "http://minio.storage:9000/");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->origin, "http://minio.storage:9000");
  EXPECT_EQ(place->path, "/backups");
  EXPECT_EQ(place->region, "us-east-1");
  place = S3PlaceOf("backups", "r1", "https://{bucket}.s3.example");
  EXPECT_EQ(place->origin, "https://backups.s3.example");
  EXPECT_EQ(place->path, "");
  EXPECT_EQ(place->region, "r1");
  for (const char* endpoint : {"minio:9000", "ftp://minio", "https://", "https://minio/path",
                               "https://user:word@minio", "https://minio?x"}) {
    EXPECT_FALSE(S3PlaceOf("backups", "r1", endpoint).ok()) << endpoint;
  }
}

}  // namespace s3_address_test
}  // namespace escapement
