"""After deactivation nothing is sent, and deletion leaves nothing behind. The last file, because it removes the plugin."""

from test_posts import publish


def network(site):
    """Makes the site the first one of a network, and returns PHP that makes it one in a process, and the second site's id."""
    host = site.base.removeprefix("http://")
    constants = {"MULTISITE": "true", "SUBDOMAIN_INSTALL": "false", "DOMAIN_CURRENT_SITE": f"'{host}'", "PATH_CURRENT_SITE": "'/'", "SITE_ID_CURRENT_SITE": "1", "BLOG_ID_CURRENT_SITE": "1"}
    prologue = "".join(f"define('{name}', {value});" for name, value in constants.items())
    site.php("foreach ($wpdb->tables('ms_global') as $table => $name) { $wpdb->$table = $name; } require_once ABSPATH . 'wp-admin/includes/upgrade.php'; install_network();"
             f"$done = populate_network(1, '{host}', 'admin@example.org', 'Network', '/', false); if (is_wp_error($done)) {{ exit($done->get_error_message()); }}")
    second = site.php(f"echo wp_insert_site(['domain' => '{host}', 'path' => '/second/', 'network_id' => 1, 'user_id' => 1]);", prologue=prologue)
    return prologue, second


def test_users_are_erased_on_all_their_sites_of_a_network_and_deletion_cleans_all(site):
    user = site.add_user("olga")
    prologue, second = network(site)
    site.php(f"switch_to_blog({second}); update_option('freshet', ['address' => 'http://{site.freshet.host}:1']); Freshet\\WordPress\\Queue::create_table();"
             f"add_user_to_blog({second}, {user}, 'subscriber'); wp_schedule_event(time(), 'hourly', 'freshet_hourly');", prologue=prologue)
    site.php(f"require_once ABSPATH . 'wp-admin/includes/ms.php'; wpmu_delete_user({user});", prologue=prologue)
    assert site.sql(f"SELECT kind, object FROM wp_{second}_freshet_queue") == [["erase", str(user)]]
    assert "freshet_send" in site.php(f"switch_to_blog({second}); echo serialize(get_option('cron'));", prologue=prologue)
    site.php("do_action('deactivate_freshet/freshet.php', true);", prologue=prologue)
    assert "freshet" not in site.php(f"switch_to_blog({second}); echo serialize(get_option('cron'));", prologue=prologue)
    site.php("define('WP_UNINSTALL_PLUGIN', 'freshet/freshet.php'); require WP_PLUGIN_DIR . '/freshet/uninstall.php';", prologue=prologue)
    assert site.sql("SHOW TABLES LIKE '%freshet%'") == []
    assert site.sql(f"SELECT option_name FROM wp_{second}_options WHERE option_name LIKE '%freshet%'") == []
    site.save_settings()


def test_deactivation_and_deletion(site, admin):
    publish(site, "Before")
    site.write("no-cron", "")
    site.wait_for_idle_php()  # a cron that runs has the plugin, and may schedule its event after the deactivation
    site.php("deactivate_plugins('freshet/freshet.php');")
    assert site.php("echo wp_next_scheduled('freshet_hourly') ? 'scheduled' : 'none';") == "none"
    text = site.browser().get("?name=before")
    assert "freshet" not in text.lower()
    site.php("$result = delete_plugins(['freshet/freshet.php']); if ($result !== true) { var_dump($result); exit(1); }")
    assert site.sql("SHOW TABLES LIKE '%freshet%'") == []
    assert site.sql("SELECT option_name FROM wp_options WHERE option_name LIKE '%freshet%'") == []
    for table in ("post", "comment", "user"):
        assert site.sql(f"SELECT meta_key FROM wp_{table}meta WHERE meta_key LIKE '%freshet%'") == []
    assert "freshet" not in site.php("echo serialize(get_option('cron'));")
