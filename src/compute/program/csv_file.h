// Tables of text as arrays: CSV as RFC 4180 has it, with a header. Used by quern-compile. Numbers are read by
// from_chars, rounded once to binary32, whatever the locale. Pure functions on byte strings; thread-safe.
//
//   file = [UTF-8 byte order mark] header *(record) ; each with a line end (\r\n or \n), the last with or without
//   field = bytes but , " \r \n, or in quotes any bytes with each quote doubled; spaces belong to a field
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "compute/program/array_file.h"

namespace quern::compute::program {

struct CsvLimits {
    std::size_t columns = 65'536;
    std::size_t name_bytes = 255;  // of a column or a class
    std::size_t classes = 65'536;
};

struct CsvTable {
    std::vector<std::string> columns;  // of the features, in the file's order
    std::vector<std::string> target_columns;
    std::vector<std::string> classes;  // target c is the number of classes[c]; empty: targets are numbers
    Array features;                    // f32 [rows, columns]
    Array targets;                     // [rows], of several columns [rows, columns], in the order of `targets`
};

// Features must be numbers. Targets that are all whole numbers become i32; other numbers f32; of a single column that
// has anything but numbers each different text is a class, in the order of their bytes: u8, of more than 256 u16.
// Errors, with the line where there is one: csv.bad_quote, csv.bad_line_end, csv.wrong_columns (more or fewer fields
// than the header), csv.too_many_columns, csv.bad_name (of a column or a class: no UTF-8, too long, of a column also
// none), csv.duplicate_column, csv.no_such_column, csv.no_features, csv.no_rows, csv.bad_number, csv.out_of_range (of
// f32), csv.not_finite, csv.many_class_columns, csv.too_many_classes.
[[nodiscard]] Expected<CsvTable> read_csv(std::string_view text, const std::vector<std::string>& targets,
                                          const CsvLimits& limits = {});

}  // namespace quern::compute::program
