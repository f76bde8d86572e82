// record_write_test.cc: the bytes of a record, and what happens when it is full. The tests of reading are with the
// reader, under stress/ and crash.
#include "base/test_support.h"

extern "C" {
#include "base/bits.h"
#include "crash/record_write.h"
}

namespace {

std::string finished(record_writer *writer)
{
    size_t size = record_finish(writer);
    return std::string(reinterpret_cast<char *>(writer->bytes), size);
}

uint32_t word_at(const std::string &bytes, size_t at)
{
    uint32_t value = 0;
    for (size_t i = 4; i-- > 0;) value = value << 8 | (unsigned char)bytes[at + i];
    return value;
}

class RecordWrite : public testing::Test {
  protected:
    unsigned char room[512];
    record_writer writer;

    void begin(size_t room_bytes)
    {
        memset(room, 0xee, sizeof room);
        record_begin(&writer, room, room_bytes);
    }
};

} // namespace

TEST(RecordCrc, KnownAnswers)
{
    EXPECT_EQ(bits_crc(0, "", 0), 0u);
    EXPECT_EQ(bits_crc(0, "123456789", 9), 0xcbf43926u) << "the check value of CRC-32";
}

TEST_F(RecordWrite, HeadFieldAndEnd)
{
    begin(sizeof room);
    record_number(&writer, RECORD_seed, 0x0102030405060708);
    record_text(&writer, RECORD_thread_name, "abc");
    std::string bytes = finished(&writer);
    ASSERT_EQ(bytes.size(), 12u + 16 + 11 + 12);
    EXPECT_EQ(bytes.substr(0, 8), "HAKCRASH");
    EXPECT_EQ(word_at(bytes, 8), (uint32_t)RECORD_VERSION);
    EXPECT_EQ(word_at(bytes, 12), (uint32_t)RECORD_seed);
    EXPECT_EQ(word_at(bytes, 16), 8u);
    EXPECT_EQ(bytes.substr(20, 8), "\x08\x07\x06\x05\x04\x03\x02\x01");
    EXPECT_EQ(bytes.substr(28 + 8, 3), "abc");
    EXPECT_EQ(word_at(bytes, 39), (uint32_t)RECORD_END);
    EXPECT_EQ(word_at(bytes, 47), bits_crc(0, bytes.data(), 47));
}

TEST_F(RecordWrite, AFullRecordIsCutAndSaysWhere)
{
    for (size_t room_bytes = 256; room_bytes < 300; room_bytes++) {
        begin(room_bytes);
        record_number(&writer, RECORD_signal, 11);
        record_text(&writer, RECORD_operations, std::string(1000, 'o').c_str());
        record_number(&writer, RECORD_seed, 1);
        EXPECT_EQ(writer.cut, 1ull << RECORD_operations | 1ull << RECORD_seed);
        std::string bytes = finished(&writer);
        ASSERT_LE(bytes.size(), room_bytes);
        EXPECT_EQ(room[room_bytes], 0xee) << "written past its room";
        EXPECT_EQ(word_at(bytes, bytes.size() - 4), bits_crc(0, bytes.data(), bytes.size() - 4));
        EXPECT_EQ(word_at(bytes, bytes.size() - 28), (uint32_t)RECORD_cut);
        EXPECT_EQ(word_at(bytes, 28), (uint32_t)RECORD_operations);
        EXPECT_EQ(12 + 16 + 8 + word_at(bytes, 32), bytes.size() - 28) << "the cut field is not whole";
    }
}

TEST_F(RecordWrite, AFieldThatWasCutCanBeDropped)
{
    begin(256);
    size_t before = writer.used_bytes;
    record_open(&writer, RECORD_module);
    EXPECT_TRUE(record_add_number(&writer, 1));
    EXPECT_FALSE(record_add(&writer, room, 400));
    record_close_whole(&writer);
    EXPECT_EQ(writer.used_bytes, before);
    EXPECT_NE(writer.cut & 1ull << RECORD_module, 0u);
    record_open(&writer, RECORD_place);
    record_drop(&writer);
    EXPECT_EQ(writer.used_bytes, before);
}

TEST_F(RecordWrite, WhatOthersWriteIsBoundedToo)
{
    begin(256);
    EXPECT_EQ(record_room(&writer), 0u) << "no field is open";
    record_open(&writer, RECORD_operations);
    size_t fits = record_room(&writer);
    record_took(&writer, fits + 100);
    record_close(&writer);
    EXPECT_NE(writer.cut & 1ull << RECORD_operations, 0u);
    EXPECT_LE(finished(&writer).size(), 256u);
}
