"""After deactivation nothing is sent, and deletion leaves nothing behind. The last file, because it removes the plugin."""

from test_posts import publish


def test_deactivation_and_deletion(site, admin):
    publish(site, "Before")
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
