//! Guests of Debian's libvirt and QEMU, pinned by libvirt alone: their memory comes home while the guest counts, and what libvirt has bound to a
//! node stays. The guest is a boot sector that adds one to a word of each page, over and over.

mod cells;

use super::*;
use crate::{
    cpus::cpus_of,
    settings::Setting,
    truth::{Nodes, Truth, off, on},
};

/// The machine code of
///
/// ```text
///     cli                        # 16 bits
///     xorw %ax, %ax
///     movw %ax, %ds
///     inb $0x92, %al             # line A20
///     orb $2, %al
///     outb %al, $0x92
///     lgdt gdt
///     movl %cr0, %eax            # to protected mode and back: DS keeps a limit of 4 GiB
///     orb $1, %al
///     movl %eax, %cr0
///     movw $8, %bx
///     movw %bx, %ds
///     decb %al
///     movl %eax, %cr0
///     xorw %ax, %ax
/// pass:
///     movl $0x100000, %edi       # 24 MiB from 1 MiB on
/// page:
///     incl (%edi)
///     addl $4096, %edi
///     cmpl $0x1900000, %edi
///     jb page
///     movl $0x500, %edi          # the number of passes
///     incl (%edi)
///     jmp pass
/// gdt:                           # its limit, its address, and after padding a null and a flat data segment
/// ```
const BOOT: [u8; 96] = [
    0xfa, 0x31, 0xc0, 0x8e, 0xd8, 0xe4, 0x92, 0x0c, 0x02, 0xe6, 0x92, 0x0f, 0x01, 0x16, 0x4a, 0x7c,
    0x0f, 0x20, 0xc0, 0x0c, 0x01, 0x0f, 0x22, 0xc0, 0xbb, 0x08, 0x00, 0x8e, 0xdb, 0xfe, 0xc8, 0x0f,
    0x22, 0xc0, 0x31, 0xc0, 0x66, 0xbf, 0x00, 0x00, 0x10, 0x00, 0x67, 0x66, 0xff, 0x07, 0x66, 0x81,
    0xc7, 0x00, 0x10, 0x00, 0x00, 0x66, 0x81, 0xff, 0x00, 0x00, 0x90, 0x01, 0x72, 0xec, 0x66, 0xbf,
    0x00, 0x05, 0x00, 0x00, 0x67, 0x66, 0xff, 0x07, 0xeb, 0xda, 0x0f, 0x00, 0x50, 0x7c, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x92, 0xcf, 0x00,
];
/// The addresses in which the guest counts.
const COUNTED: std::ops::Range<u64> = MIB..25 * MIB;
const PASSES: u64 = 0x500;
const DISK: &str = "/var/lib/libvirt/images/counting.img";
const SCHEDULE: &str = "/etc/numaloc/conf.d/50-guests.toml";

/// A guest that counts. It is destroyed when this value is dropped.
struct Guest {
    name: &'static str,
}

impl Guest {
    /// Starts a guest on the CPUs of node 1. `backing` and `tuning` are parts of its definition.
    fn start(name: &'static str, backing: &str, tuning: &str) -> Self {
        Self::start_with(name, backing, tuning, 1)
    }

    /// As [`Self::start`], with this number of vCPUs.
    fn start_with(name: &'static str, backing: &str, tuning: &str, vcpus: u32) -> Self {
        let definition = format!(
            "<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory>{backing}
            <vcpu placement='static' cpuset='{}'>{vcpus}</vcpu>{tuning}
            <os><type arch='x86_64' machine='pc'>hvm</type><boot dev='fd'/></os>
            <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
            <disk type='file' device='floppy'><driver name='qemu' type='raw'/><source file='{DISK}'/>
            <target dev='fda'/><readonly/></disk><memballoon model='none'/></devices></domain>",
            cpus_of(1)
        );
        let path = format!("/tmp/{name}.xml");
        fs::write(&path, definition).expect("writable");
        done("virsh", &["create", &path]);
        let guest = Self { name };
        until("the guest counts", || guest.word(PASSES) > 0);
        guest
    }

    fn pid(&self) -> i32 {
        let path = format!("/run/libvirt/qemu/{}.pid", self.name);
        fs::read_to_string(path).expect("it runs").trim().parse().expect("a pid")
    }

    /// Bytes of its memory by node.
    fn nodes(&self) -> Nodes {
        Truth::of(self.pid()).of_files("memory-backend-memfd")
    }

    /// A word of its memory, by its physical address.
    fn word(&self, address: u64) -> u32 {
        let command = format!("xp /1wx {address:#x}");
        let said = done("virsh", &["qemu-monitor-command", self.name, "--hmp", &command]);
        let word = said.trim().rsplit("0x").next().expect("a word");
        u32::from_str_radix(word, 16).unwrap_or_else(|_| panic!("{said}"))
    }

    /// Gives it the CPUs of node 0, as an administrator does.
    fn goes_to_node_0(&self) {
        done("virsh", &["emulatorpin", self.name, &cpus_of(0), "--live"]);
        // libvirt may take emulated CPUs for part of the emulator.
        run("virsh", &["vcpupin", self.name, "0", &cpus_of(0), "--live"]);
    }

    /// Asserts that it has counted on in all of its memory, and has lost nothing.
    fn counts_on(&self, since: u32) {
        until("it counts on", || self.word(PASSES) > since + 1);
        done("virsh", &["suspend", self.name]);
        let passes = self.word(PASSES);
        for address in COUNTED.step_by(3 << 18) {
            let word = self.word(address);
            assert!([passes, passes + 1].contains(&word), "{word} of {passes} at {address:#x}");
        }
        done("virsh", &["resume", self.name]);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(format!("/var/log/libvirt/qemu/{}.log", self.name));
            eprintln!("{}", log.unwrap_or_default());
        }
        run("virsh", &["destroy", self.name]);
    }
}

/// libvirt, with what this kernel has no use for left out.
fn libvirt() {
    fs::write("/etc/libvirt/qemu.conf", "security_driver = \"none\"\n").expect("writable");
    let mut disk = BOOT.to_vec();
    disk.resize(1_474_560, 0);
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    fs::write(DISK, disk).expect("writable");
    systemctl(&["start", "virtlogd.socket", "libvirtd.service"]);
}

#[test]
fn guests_come_home_while_they_count_and_what_libvirt_binds_stays() {
    let _still = Setting::still_host();
    let _pools = [0, 1].map(|node| Setting::huge_pool(node, 40));
    libvirt();
    let system = System::new();
    system.install(1, &["numaloc"]);
    let shared = "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>";
    let huge = "<memoryBacking><hugepages/><source type='memfd'/></memoryBacking>";
    let bound = "<numatune><memory mode='strict' nodeset='1'/></numatune>";
    let guests = [
        Guest::start("shared", shared, ""),
        Guest::start("huge", huge, ""),
        Guest::start("bound", shared, bound),
    ];
    for guest in &guests {
        let nodes = guest.nodes();
        assert!(on(&nodes, 1) >= 24 * MIB && off(&nodes, 1) == 0, "{}: {nodes:?}", guest.name);
        guest.goes_to_node_0();
    }
    let [shared, huge, bound] = &guests;
    let begin = guests.each_ref().map(|guest| guest.word(PASSES));
    // By name, with where it was found.
    let output = run("/usr/bin/numalocctl", &["migrate", "--vm", "huge"]);
    let said = format!("{output:?}");
    assert!(output.status.success() && said.contains("libvirt, process"), "{said}");
    assert_eq!(off(&huge.nodes(), 0), 0, "{said}");
    // Matched by the pattern of their cgroups, without a command.
    let schedule = "[[schedule]]\nname = \"guests\"\ninterval = \"2s\"\n\
                    spec.target.cgroups = [\"/machine.slice/machine-qemu*.scope\"]\n";
    fs::write(SCHEDULE, schedule).expect("writable");
    systemctl(&["reload", "numalocd.service"]);
    until("the guest comes home", || off(&shared.nodes(), 0) == 0);
    fs::remove_file(SCHEDULE).expect("it was written");
    let nodes = bound.nodes();
    assert_eq!(off(&nodes, 1), 0, "libvirt has bound it: {nodes:?}");
    for (guest, since) in guests.iter().zip(begin) {
        guest.counts_on(since);
    }
    drop(guests);
    systemctl(&["stop", "libvirtd.service", "libvirtd.socket", "virtlogd.service"]);
}
