/* Runs `serving_default` of an export on the command line's texts, through TensorFlow's C API.
 *
 *   translate EXPORT_DIR [LIBRARY.so ...] -- TEXT...
 *
 * EXPORT_DIR is <name>/<version>. The libraries are tensorflow-text's; portable exports need none.
 * Prints score, tab and text for each TEXT. Exit codes: 0; 1 if running fails; 2 if what was given
 * is wrong. How to compile it: saved_models/README.md, "From C".
 */
#include <stdbool.h>
#include <stdio.h>
#include <tensorflow/c/tf_tstring.h>

#include "signature.h"

static void require(bool is_so, int exit_code, const char *what, const char *why) {
  if (is_so) return;
  fprintf(stderr, "translate: %s: %s\n", what, why);
  exit(exit_code);
}

static void require_ok(TF_Status *status, int exit_code, const char *what) {
  require(TF_GetCode(status) == TF_OK, exit_code, what, TF_Message(status));
}

int main(int count, char **arguments) {
  int dashes = 2;
  while (dashes < count && strcmp(arguments[dashes], "--") != 0) dashes++;
  const int64_t rows = count - dashes - 1;
  require(rows > 0, 2, "usage", "translate EXPORT_DIR [LIBRARY.so ...] -- TEXT...");

  TF_Status *status = TF_NewStatus();
  for (int i = 2; i < dashes; i++) {
    TF_Library *library = TF_LoadLibrary(arguments[i], status);
    require_ok(status, 2, arguments[i]);
    TF_DeleteLibraryHandle(library); /* the library itself stays */
  }

  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *meta_graph = TF_NewBuffer();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, arguments[1], tags, 1, graph,
                                                     meta_graph, status);
  require_ok(status, 2, arguments[1]);
  TF_Output input = signature_tensor(graph, meta_graph, "serving_default", INPUTS, "text");
  TF_Output outputs[] = {signature_tensor(graph, meta_graph, "serving_default", OUTPUTS, "score"),
                         signature_tensor(graph, meta_graph, "serving_default", OUTPUTS, "text")};
  bool is_there = input.oper && outputs[0].oper && outputs[1].oper;
  require(is_there && TF_OperationOutputType(outputs[0]) == TF_FLOAT &&
              TF_OperationOutputType(outputs[1]) == TF_STRING,
          2, arguments[1], "serving_default must take `text` and give texts and float scores");

  TF_Tensor *texts = TF_AllocateTensor(TF_STRING, &rows, 1, rows * sizeof(TF_TString));
  require(texts != NULL, 1, "texts", "no memory for them");
  TF_TString *strings = TF_TensorData(texts);
  for (int64_t i = 0; i < rows; i++) {
    const char *text = arguments[dashes + 1 + i];
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], text, strlen(text));
  }
  TF_Tensor *found[2];
  TF_SessionRun(session, NULL, &input, &texts, 1, outputs, found, 2, NULL, 0, NULL, status);
  require_ok(status, 1, "serving_default");
  require(TF_TensorElementCount(found[0]) == rows && TF_TensorElementCount(found[1]) == rows, 1,
          "serving_default", "did not answer each text once");

  const float *scores = TF_TensorData(found[0]);
  const TF_TString *answers = TF_TensorData(found[1]);
  for (int64_t i = 0; i < rows; i++) {
    printf("%.6f\t", scores[i]);
    fwrite(TF_StringGetDataPointer(&answers[i]), 1, TF_StringGetSize(&answers[i]), stdout);
    putchar('\n');
  }
  require(fflush(stdout) == 0 && !ferror(stdout), 1, "standard output", "cannot be written");

  TF_DeleteTensor(texts); /* and the strings in it */
  TF_DeleteTensor(found[0]);
  TF_DeleteTensor(found[1]);
  TF_CloseSession(session, status);
  require_ok(status, 1, "closing the session");
  TF_DeleteSession(session, status);
  require_ok(status, 1, "deleting the session");
  TF_DeleteSessionOptions(options);
  TF_DeleteBuffer(meta_graph);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
