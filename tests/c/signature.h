/* Finds the inputs and outputs of a signature in a loaded graph.
 *
 * The name of the tensor of an output such as `text`, for example StatefulPartitionedCall_5:1, may
 * differ between exports; only the signature has it. The C API returns signatures only as a
 * protobuf, the MetaGraphDef. This file reads a few of its fields without a protobuf library; their
 * numbers are those of TensorFlow's meta_graph.proto, which never change.
 */
#ifndef SIGNATURE_H
#define SIGNATURE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/c_api.h>

/* Of MetaGraphDef; of SignatureDef, two; of TensorInfo; of the entries of every map, two. */
enum { SIGNATURES = 5, INPUTS = 1, OUTPUTS = 2, TENSOR_NAME = 1, KEY = 1, VALUE = 2 };

typedef struct {
  const uint8_t *data;
  size_t size;
} Bytes;

/* Takes a number off the front of a protobuf: seven bits a byte, the lowest first. */
static uint64_t take_number(Bytes *message) {
  uint64_t number = 0, byte = 128;
  for (int shift = 0; byte >= 128 && message->size > 0 && shift < 64; shift += 7) {
    byte = *message->data++;
    message->size--;
    number |= (byte & 127) << shift;
  }
  return number;
}

/* The content of a field; if it is a map, the value of `key`. Nothing if it is not there. */
static Bytes find_field(Bytes message, uint64_t field, const char *key) {
  while (message.size > 0) {
    uint64_t tag = take_number(&message), type = tag & 7;
    uint64_t size = type == 1 ? 8 : type == 5 ? 4 : take_number(&message);
    if (type == 0) continue; /* that number was the content */
    if (size > message.size) break;
    Bytes content = {message.data, size};
    message = (Bytes){message.data + size, message.size - size};
    if (tag != (field << 3 | 2)) continue;
    if (key == NULL) return content;
    Bytes name = find_field(content, KEY, NULL);
    if (name.size == strlen(key) && memcmp(name.data, key, name.size) == 0)
      return find_field(content, VALUE, NULL);
  }
  return (Bytes){NULL, 0};
}

/* The tensor that a signature calls `name` among its INPUTS or OUTPUTS; without `oper` if none. */
static TF_Output signature_tensor(TF_Graph *graph, const TF_Buffer *meta_graph,
                                  const char *signature, int side, const char *name) {
  Bytes found = find_field((Bytes){meta_graph->data, meta_graph->length}, SIGNATURES, signature);
  found = find_field(find_field(found, side, name), TENSOR_NAME, NULL);
  char node[256] = ""; /* "StatefulPartitionedCall_5:1" */
  if (found.size < sizeof node && found.size > 0) memcpy(node, found.data, found.size);
  char *colon = strrchr(node, ':');
  if (colon == NULL) return (TF_Output){NULL, 0};
  *colon = '\0';
  return (TF_Output){TF_GraphOperationByName(graph, node), atoi(colon + 1)};
}

#endif
