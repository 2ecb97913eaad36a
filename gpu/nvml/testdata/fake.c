// A libnvidia-ml.so.1 that shows what the file named by FAKE_NVML says: one line for each
// device, of numbers in the order of struct card. A number of -1 is a call that is not
// supported. With -DOLD it has only what the oldest drivers have.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct card {
  int reachable, load, celsius, milliwatts, pid, pid_load, ecc, mig, throttle;
};

static struct card cards[16];
static int count;

static int read_cards(void) {
  FILE *f = fopen(getenv("FAKE_NVML"), "r");
  if (!f) return 9; // driver not loaded
  for (count = 0; count < 16; count++) {
    struct card *c = &cards[count];
    if (fscanf(f, "%d %d %d %d %d %d %d %d %d", &c->reachable, &c->load, &c->celsius, &c->milliwatts, &c->pid, &c->pid_load, &c->ecc,
               &c->mig, &c->throttle) != 9)
      break;
  }
  fclose(f);
  return 0;
}

static int tell(int v, unsigned *out) {
  if (v < 0) return 3; // not supported
  *out = v;
  return 0;
}

static int tell64(int v, unsigned long long *out) {
  if (v < 0) return 3;
  *out = v;
  return 0;
}

int nvmlInit_v2(void) { return read_cards(); }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) {
  int err = read_cards();
  *n = count;
  return err;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct card **d) {
  *d = &cards[i];
  return cards[i].reachable ? 0 : 15; // GPU is lost
}
int nvmlDeviceGetName(struct card *d, char *name, unsigned n) {
  snprintf(name, n, "Fake %d", (int)(d - cards));
  return 0;
}
int nvmlDeviceGetTemperature(struct card *d, int sensor, unsigned *t) { return tell(d->celsius, t); }

#ifndef OLD
int nvmlSystemGetDriverVersion(char *s, unsigned n) {
  snprintf(s, n, "550.54.14");
  return 0;
}
int nvmlDeviceGetUUID(struct card *d, char *s, unsigned n) {
  snprintf(s, n, "GPU-%d", (int)(d - cards));
  return 0;
}
int nvmlDeviceGetPowerUsage(struct card *d, unsigned *mw) { return tell(d->milliwatts, mw); }
int nvmlDeviceGetTotalEnergyConsumption(struct card *d, unsigned long long *mj) { return tell64(d->milliwatts, mj); }
int nvmlDeviceGetTotalEccErrors(struct card *d, int type, int counter, unsigned long long *n) { return tell64(d->ecc, n); }
int nvmlDeviceGetCurrentClocksThrottleReasons(struct card *d, unsigned long long *bits) { return tell64(d->throttle, bits); }
int nvmlDeviceGetMigMode(struct card *d, unsigned *now, unsigned *later) {
  *later = 0;
  return tell(d->mig, now);
}
int nvmlDeviceGetMemoryInfo(struct card *d, unsigned long long m[3]) {
  m[0] = 24ull << 30, m[1] = 20ull << 30, m[2] = 4ull << 30;
  return 0;
}
int nvmlDeviceGetUtilizationRates(struct card *d, unsigned u[2]) {
  u[1] = 0;
  return tell(d->load, u);
}
// Two processes: the one named, and 4242.
int nvmlDeviceGetComputeRunningProcesses_v3(struct card *d, unsigned *n, struct { unsigned pid; unsigned long long used; unsigned gi, ci; } *p) {
  unsigned have = d->pid > 0 ? 2 : 0, room = *n;
  *n = have;
  if (room < have) return 7; // insufficient size
  if (have) memset(p, 0, 2 * sizeof *p), p[0].pid = d->pid, p[1].pid = 4242;
  return 0;
}
int nvmlDeviceGetProcessUtilization(struct card *d, struct { unsigned pid; unsigned long long time; unsigned sm, mem, enc, dec; } *p, unsigned *n,
                                    unsigned long long since) {
  if (d->pid_load < 0) return 3;
  if (since >= 2000) return 6; // not found: nothing new
  if (!p || *n < 3) {
    *n = 3;
    return 7;
  }
  *n = 3;
  memset(p, 0, 3 * sizeof *p);
  p[0].pid = d->pid, p[0].time = 1000, p[0].sm = 99;
  p[1].pid = d->pid, p[1].time = 2000, p[1].sm = d->pid_load;
  p[2].pid = 4242, p[2].time = 2000, p[2].sm = 7;
  return 0;
}
#endif
