// The textbook FastCGI program: pre-forked processes that accept a connection, answer one request and close it, with
// libfcgi's own input and output. usage: echo SOCKET PROCESSES
#include <fcgiapp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve(int listener) {
  FCGX_Request request;
  FCGX_InitRequest(&request, listener, 0);
  while (FCGX_Accept_r(&request) == 0) {
    char body[4096];
    int length = FCGX_GetStr(body, sizeof body, request.in);
    FCGX_PutS("Content-Type: text/plain\r\n\r\n", request.out);
    if (length > 0) {
      FCGX_PutStr(body, length, request.out);
    } else {
      FCGX_PutS("pong\n", request.out);
    }
    FCGX_Finish_r(&request);
  }
}

int main(int argc, char** argv) {
  if (argc != 3 || FCGX_Init() != 0) {
    fprintf(stderr, "usage: echo SOCKET PROCESSES\n");
    return 2;
  }
  int listener = FCGX_OpenSocket(argv[1], 1024);
  if (listener < 0 || chmod(argv[1], 0777) != 0) {
    perror(argv[1]);
    return 1;
  }
  for (int i = atoi(argv[2]); i > 0; --i) {
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      serve(listener);
      _exit(1);
    }
  }
  while (wait(NULL) > 0) {
  }
  return 1;
}
