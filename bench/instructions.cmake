# Has ${VALGRIND} count the instructions of the pairs that ${PAIRS} does, and fails above ${CEILING} for one.
# They depend on the compiler, and not on how busy the machine is.
# Whoever lowers them lowers the ceiling.
# With ${MANY}: a pair of "${PAIRS} ${MANY} <pairs>" takes at most ${PERCENT} of what a pair of "${PAIRS} 1 <pairs>" does.
# With ${COUNTED}: the functions whose names begin with it are counted in place of pairs(), without ${EXCLUDED} in them.
# The program has ${COUNTED} as one argument more.
# With ${PERCENT} and without ${MANY}: what is counted takes at most so many percent of what pairs() does.
if(COUNTED)
    set(excluded --toggle-collect=${EXCLUDED})
    set(mode ${COUNTED})
else()
    set(COUNTED pairs)
endif()

function(count_instructions ret_each)
    execute_process(COMMAND ${VALGRIND} --tool=callgrind "--toggle-collect=${COUNTED}*" ${excluded}
        --dump-before=counted_from_here --callgrind-out-file=${OUT} ${PAIRS} ${ARGN}
        OUTPUT_VARIABLE said ERROR_VARIABLE log RESULT_VARIABLE status)
    if(NOT status EQUAL 0 OR NOT said MATCHES "${COUNTED}: ([0-9]+)")
        message(FATAL_ERROR "${said}${log}")
    endif()
    set(n ${CMAKE_MATCH_1})
    file(STRINGS ${OUT} totals REGEX "^(totals|summary): [0-9]+") # what came before is in a file of its own
    if(NOT totals MATCHES "totals: ([0-9]+)")
        message(FATAL_ERROR "no totals in ${OUT}")
    endif()
    math(EXPR each "${CMAKE_MATCH_1} / ${n}")
    set(${ret_each} ${each} PARENT_SCOPE)
endfunction()

if(MANY)
    count_instructions(each ${MANY} 1000 ${mode})
    count_instructions(one 1 1000 ${mode})
    math(EXPR CEILING "${one} * ${PERCENT} / 100")
elseif(PERCENT)
    count_instructions(each 1 1000 ${mode})
    set(counted ${COUNTED})
    set(COUNTED pairs)
    set(mode)
    count_instructions(one 1 1000)
    set(COUNTED ${counted})
    math(EXPR CEILING "${one} * ${PERCENT} / 100")
else()
    count_instructions(each)
endif()
message(STATUS "${COUNTED}: ${each} instructions each, ${CEILING} at most")
if(each LESS 1 OR each GREATER CEILING)
    message(FATAL_ERROR "${COUNTED}: ${each} instructions each; the ceiling is ${CEILING}")
endif()
