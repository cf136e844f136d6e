# Has ${VALGRIND} count the instructions of the pairs that ${PAIRS} does, and fails above ${CEILING} for one.
# They depend on the compiler, and not on how busy the machine is. The checks of a build with assertions do not count.
# Whoever lowers them lowers the ceiling.
execute_process(COMMAND ${VALGRIND} --tool=callgrind "--toggle-collect=pairs*" --toggle-collect=rlock__core_check
    --callgrind-out-file=${OUT} ${PAIRS}
    OUTPUT_VARIABLE said ERROR_VARIABLE log RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT said MATCHES "pairs: ([0-9]+)")
    message(FATAL_ERROR "${said}${log}")
endif()
set(n ${CMAKE_MATCH_1})
file(STRINGS ${OUT} totals REGEX "^(totals|summary): [0-9]+")
if(NOT totals MATCHES "totals: ([0-9]+)")
    message(FATAL_ERROR "no totals in ${OUT}")
endif()
math(EXPR each "${CMAKE_MATCH_1} / ${n}")
message(STATUS "a pair: ${each} instructions, ${CEILING} at most")
if(each LESS 1 OR each GREATER CEILING)
    message(FATAL_ERROR "a pair took ${each} instructions; the ceiling is ${CEILING}")
endif()
