# Has ${VALGRIND} count the instructions of the pairs that ${PAIRS} does, and fails above ${CEILING} for one.
# They depend on the compiler, and not on how busy the machine is.
# Whoever lowers them lowers the ceiling.
# With ${MANY}: a pair of "${PAIRS} ${MANY} <pairs>" takes at most ${PERCENT} of what a pair of "${PAIRS} 1 <pairs>" does.
# With ${COUNTED}: the functions whose names begin with it are counted in place of pairs(), without ${EXCLUDED} in them.
# The program has ${COUNTED} as one argument more.
if(COUNTED)
    set(excluded --toggle-collect=${EXCLUDED})
    set(mode ${COUNTED})
else()
    set(COUNTED pairs)
endif()

function(count_instructions ret_total ret_n)
    execute_process(COMMAND ${VALGRIND} --tool=callgrind "--toggle-collect=${COUNTED}*" ${excluded}
        --callgrind-out-file=${OUT} ${PAIRS} ${ARGN}
        OUTPUT_VARIABLE said ERROR_VARIABLE log RESULT_VARIABLE status)
    if(NOT status EQUAL 0 OR NOT said MATCHES "${COUNTED}: ([0-9]+)")
        message(FATAL_ERROR "${said}${log}")
    endif()
    set(${ret_n} ${CMAKE_MATCH_1} PARENT_SCOPE)
    file(STRINGS ${OUT} totals REGEX "^(totals|summary): [0-9]+")
    if(NOT totals MATCHES "totals: ([0-9]+)")
        message(FATAL_ERROR "no totals in ${OUT}")
    endif()
    set(${ret_total} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

# The difference of two runs, without the instructions of the beginning.
function(count_pair ret_each servers)
    count_instructions(few n_few ${servers} 500 ${mode})
    count_instructions(many n_many ${servers} 1500 ${mode})
    math(EXPR each "(${many} - ${few}) / (${n_many} - ${n_few})")
    set(${ret_each} ${each} PARENT_SCOPE)
endfunction()

if(MANY)
    count_pair(each ${MANY})
    count_pair(one 1)
    math(EXPR CEILING "${one} * ${PERCENT} / 100")
else()
    count_instructions(total n)
    math(EXPR each "${total} / ${n}")
endif()
message(STATUS "${COUNTED}: ${each} instructions each, ${CEILING} at most")
if(each LESS 1 OR each GREATER CEILING)
    message(FATAL_ERROR "${COUNTED}: ${each} instructions each; the ceiling is ${CEILING}")
endif()
