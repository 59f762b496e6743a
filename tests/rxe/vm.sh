# SPDX-License-Identifier: BSD-2-Clause
# Sourced by run.sh and pair.sh: options, skips, the choice of the accelerator, and one virtual machine.

# skip REASON: ends with ctest's "skipped"; where REQUIRE (a list such as stock,rxe) has "rxe", as a failure.
skip() {
  echo "SKIP: $*" >&2
  case ",$(echo "${REQUIRE:-}" | tr " " ,)," in
    *,rxe,*) echo "but REQUIRE names rxe" >&2; exit 1 ;;
  esac
  exit 77
}

note() { [ -z "$verbose" ] || echo "rxe: $*" >&2; }

# read_options OPTION...: sets the variables below; the caller uses the rest, from word $parsed on.
memory=${RXE_MEMORY:-2048} cpus=${RXE_CPUS:-2} limit=${RXE_LIMIT:-600} out=${RXE_OUT:-} mode=${RXE_MODE:-auto} verbose=
driver=${RXE_DRIVER:-rxe}
read_options() {
  OPTIND=1
  while getopts m:c:t:o:v option; do
    case $option in
      m) memory=$OPTARG ;;
      c) cpus=$OPTARG ;;
      t) limit=$OPTARG ;;
      o) out=$OPTARG ;;
      v) verbose=-v ;;
      *) usage ;;
    esac
  done
  parsed=$((OPTIND - 1))
  if [ -n "$out" ]; then
    mkdir -p "$out"
    out=$(cd "$out" && pwd)
    export RXE_OUT="$out"
  fi
}

# quoted WORD...: the words in a form that a shell reads back.
quoted() {
  for word in "$@"; do
    printf "'%s' " "$(printf '%s.' "$word" | sed "s/'/'\\\\''/g")" | sed "\$s/\\.' \$/' /"
  done
}

# write_command FILE WORD...: a script that runs the words in this folder, with this environment.
write_command() {
  file=$1
  shift
  {
    export -p
    echo "cd $(quoted "$PWD") || exit 125"
    echo "ulimit -n $(ulimit -n) 2>/dev/null"
    cat "$scratch/environment"
    echo "exec $(quoted "$@")"
  } >"$file"
}

# open_scratch: the run's own folder, which is removed at its end, as are the processes that were started.
open_scratch() {
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/rxe.XXXXXX") || exit 125
  processes=
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
}

finish() {
  [ -z "$processes" ] || kill $processes 2>/dev/null
  if [ -n "${made:-}" ]; then leave_device; fi
  rm -rf "$scratch"
}

# need_vm: the emulator, the image, the accelerator.
need_vm() {
  qemu=$(command -v qemu-system-x86_64) || skip "qemu-system-x86_64 is missing (sh cmake/install-dependencies.sh test)"
  image=$(sh "$here/image.sh") || skip "no image for the virtual machine"
  choose_accelerator
}

# tsc_rate: prints the rate of this machine's TSC in kHz, if a hypervisor has told it to the kernel and the kernel shows
# that rate and not that of the moment.
tsc_rate() {
  awk -F: '/^flags/ { known = / tsc_known_freq/ && / constant_tsc/ && !/ aperfmperf/ } /^cpu MHz/ { rate = $2 * 1000 }
    END { if (known) printf "%d", rate }' /proc/cpuinfo
}

# /dev/kvm may exist and yet start no guest, so only a boot counts. The answer holds until the host boots again.
# An emulated guest, whose TSC is the host's, measures its rate at boot. On a busy host it measures too little, and its
# clock then runs up to three times too fast: every time limit of a test becomes shorter. So the guest is given the rate,
# or else the HPET, whose rate is known, but which takes the emulator a quarter of its time.
choose_accelerator() {
  rate=$(tsc_rate)
  clock=${rate:+"tsc=reliable tsc_early_khz=$rate"}
  clock=${clock:-clocksource=hpet}
  tcg="-accel tcg,thread=multi -cpu max"
  kvm="-accel kvm -cpu host"
  case $mode in
    tcg) accelerator=$tcg; return ;;
    kvm) accelerator=$kvm clock=tsc=reliable; return ;;
    # A nanosecond for each instruction: measurements while awake do not depend on the load of this machine.
    count) accelerator="-accel tcg,thread=single -icount shift=0,sleep=on -cpu max" clock=tsc=reliable; return ;;
  esac
  accelerator=$tcg
  [ -w /dev/kvm ] || return 0
  answer=${image%/*}/kvm-$(cat /proc/sys/kernel/random/boot_id)-$(id -u)
  if [ ! -s "$answer" ]; then
    timeout -k 1 "${RXE_PROBE_LIMIT:-10}" "$qemu" $kvm -m 512 $machine -kernel "$image/vmlinux" -initrd "$image/initramfs" \
      -append "$kernel_options tsc=reliable lab.probe" -serial "file:$scratch/probe" </dev/null >/dev/null 2>&1
    if grep -q 'lab: alive' "$scratch/probe" 2>/dev/null; then echo yes; else echo no; fi >"$answer.$$"
    mv "$answer.$$" "$answer"
  fi
  [ "$(cat "$answer")" = no ] || accelerator=$kvm clock=tsc=reliable
  note "KVM: $(cat "$answer")"
}

machine="-nodefaults -no-user-config -display none -no-reboot -M pc,usb=off"
# On a busy host the timer of an emulated guest may be too late for the kernel's check of it, which ends in a panic.
kernel_options="console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on no_timer_check"

# start_vm NAME NETDEV_OPTION...: boots a guest whose share is $scratch/NAME (with settings and command) and whose ports
# are fifos in $scratch/NAME.ports. Sets vm to its process, carriers to those that carry its output.
start_vm() {
  share=$scratch/$1 ports=$scratch/$1.ports
  shift
  cp "$here/guest-session" "$share/session"
  mkdir "$ports"
  for port in out err request.in request.out order.in order.out monitor.in monitor.out; do mkfifo "$ports/$port"; done
  results=
  if [ -n "$out" ]; then results="-virtfs local,path=$out,mount_tag=out,security_model=none,multidevs=remap"; fi
  carry "$ports"
  setpriv --pdeathsig TERM timeout -k 5 $((limit + ${RXE_BOOT_LIMIT:-120})) "$qemu" $accelerator $machine \
    -m "$memory" -smp "$cpus" -kernel "$image/vmlinux" -initrd "$image/initramfs" -append "$kernel_options $clock" \
    -serial "file:$share.console" -device virtio-serial-pci \
    -chardev "file,id=out,path=$ports/out" -device virtserialport,chardev=out,nr=1 \
    -chardev "file,id=err,path=$ports/err" -device virtserialport,chardev=err,nr=2 \
    -chardev "pipe,id=request,path=$ports/request" -device virtserialport,chardev=request,nr=3 \
    -chardev "pipe,id=order,path=$ports/order" -device virtserialport,chardev=order,nr=4 \
    -chardev "pipe,id=monitor,path=$ports/monitor" -mon chardev=monitor,mode=readline \
    -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$share,mount_tag=lab,security_model=none,multidevs=remap" $results "$@" \
    </dev/null >"$share.qemu" 2>&1 &
  vm=$!
  processes="$processes $vm $carriers"
}

# result NAME: the status of the command in that guest; 124 when it did not end, 125 when the guest did not carry it out.
result() {
  share=$scratch/$1
  if [ -s "$share/status" ]; then
    status=$(cat "$share/status")
    [ ! -e "$share/late" ] || status=124
    [ -z "$verbose" ] || cat "$share/dmesg" >&2
    return 0
  fi
  status=125
  if [ -e "$share/late" ]; then status=124; fi
  echo "rxe: guest $1 ended without a status. What it and qemu said last:" >&2
  tail -n 40 "$share.console" "$share.qemu" >&2
}
