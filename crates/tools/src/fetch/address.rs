//! Classification of IP addresses as public or not. Connections to other than public addresses are refused, to prevent SSRF.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why connections to an address are refused, or `None` for a public address.
pub(super) fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (0, ..) => Some("is unspecified"),
        (127, ..) => Some("is a loopback address"),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some("is in a private network"),
        (100, 64..=127, _) => Some("is in a carrier's private network"),
        (169, 254, _) => Some("is link-local, as are cloud metadata services"),
        (192, 0, 0 | 2) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => {
            Some("is reserved for documentation and protocols")
        }
        (224..=239, ..) => Some("is multicast"),
        (240.., ..) => Some("is reserved"),
        _ => None,
    }
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    let parts = address.segments();
    match parts {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("is unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("is a loopback address"),
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => {
            Some("is an IPv4 address written as IPv6")
        }
        [0x64, 0xff9b, ..] => Some("embeds an IPv4 address (NAT64)"),
        [0x2002, ..] => Some("embeds an IPv4 address (6to4)"),
        [0x2001, 0, ..] => Some("embeds an IPv4 address (Teredo)"),
        [0x2001, 0x1..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => {
            Some("is reserved for documentation and protocols")
        }
        [0xfe80..=0xfebf, ..] => Some("is link-local"),
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Some("is in a private network"),
        [0xff00..=0xffff, ..] => Some("is multicast"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("is reserved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_allowed() {
        let rows = [
            ("0.0.0.0", "unspecified"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("10.1.2.3", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("100.64.0.1", "carrier's private"),
            ("169.254.169.254", "metadata"),
            ("192.0.0.192", "reserved"),
            ("198.18.0.1", "reserved"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "IPv4 address written"),
            ("::ffff:8.8.8.8", "IPv4 address written"),
            ("::127.0.0.1", "IPv4 address written"),
            ("::ffff:0:127.0.0.1", "IPv4 address written"),
            ("64:ff9b::7f00:1", "NAT64"),
            ("64:ff9b:1::1", "NAT64"),
            ("2002:7f00:1::", "6to4"),
            ("2001::1", "Teredo"),
            ("2001:db8::1", "reserved"),
            ("fe80::1", "link-local"),
            ("fd00:ec2::254", "private"),
            ("fec0::1", "private"),
            ("ff02::1", "multicast"),
            ("100::1", "reserved"),
            ("5f00::1", "reserved"),
        ];
        for (address, why) in rows {
            let refusal = refusal(address.parse().unwrap());
            assert!(refusal.is_some_and(|reason| reason.contains(why)), "{address}: {refusal:?}");
        }
        for address in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "169.253.0.1", "2606:4700::1", "2a00:1450::1"]
        {
            assert_eq!(refusal(address.parse().unwrap()), None, "{address}");
        }
    }
}
