# cmake -DINPUT=file -DOUTPUT=file.cpp -DNAMESPACE=a::b -DNAME=kName -P EmbedFile.cmake
# Defines NAMESPACE::NAME, the bytes of INPUT, and NAMESPACE::NAMEBytes, their number. Uses an array of characters
# because a string literal of this length exceeds what compilers must support.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
string(REGEX REPLACE "(('..[0-9a-f][0-9a-f]',){20})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <cstddef>\n\nnamespace ${NAMESPACE} {\n\nextern const char ${NAME}[];\n"
  "extern const std::size_t ${NAME}Bytes;\n\nconst char ${NAME}[] = {\n${bytes}};\n"
  "const std::size_t ${NAME}Bytes = sizeof ${NAME};\n\n}  // namespace ${NAMESPACE}\n")
